/* sketch: a network on an Arduino Uno or any other board, as plain C: network.h is all it needs, not fold.h.

     cc -O2 -o policy examples/policy.c -lm && ./policy --c examples/sketch/network.h

   prints the network of a file, ./policy policy.onnx --c examples/sketch/network.h that of yours (the archives of
   releases have a network.h). Then open this folder in the Arduino IDE and press Upload. The serial monitor, at 115200
   baud, shows what the network answers, and the same hash as a desktop's.

   An AVR keeps the weights in RAM: 456 of an Uno's 2048 bytes for the 114 of this network. Larger networks need a
   board with more. */
#include "network.h"
#ifdef __AVR__
#include <avr/sleep.h>
#endif

enum { OBSERVATIONS = 4, ACTIONS = 2, STEPS = 200 };
static uint32_t hash = 2166136261u; /* FNV-1a, of the bits of all actions */
static unsigned long microseconds;
static int steps;

/* Stands in for a sensor: a wave from -1 to 1. With one on each analogue pin: analogRead(A0 + i) / 512.0f - 1.0f */
static float sensor(int i)
{
    const int at = (steps * (3 + 2 * i) + 16 * i) % 128;
    return (float)(at < 64 ? at : 128 - at) / 32.0f - 1.0f;
}

static void add_to_hash(float value)
{
    uint8_t bytes[sizeof value];
    memcpy(bytes, &value, sizeof value);
    for (unsigned i = 0; i < sizeof value; i++) hash = (hash ^ bytes[i]) * 16777619u;
}

static void finish()
{
    Serial.print("RESULT sketch steps=");
    Serial.print(steps);
    Serial.print(" microseconds_per_step=");
    Serial.print(microseconds / STEPS);
    Serial.print(" hash=");
    Serial.println(hash, HEX);
    Serial.flush();
#ifdef __AVR__
    noInterrupts();
    sleep_mode();
#endif
    for (;;) {}
}

void setup() { Serial.begin(115200); }

void loop()
{
    float observation[OBSERVATIONS], action[ACTIONS];
    for (int i = 0; i < OBSERVATIONS; i++) observation[i] = sensor(i);
    const unsigned long began = micros();
    policy_step(observation, action);
    microseconds += micros() - began;
    for (int i = 0; i < ACTIONS; i++) add_to_hash(action[i]); /* here a motor would turn */
    if (steps % 20 == 0) {
        Serial.print((double)action[0], 5);
        Serial.print(" ");
        Serial.println((double)action[1], 5);
    }
    if (++steps == STEPS) finish();
}
