/* raylib.h - stands in for raylib, with which games of PufferLib draw: types and colours, and calls that do nothing. */
#ifndef RAYLIB_STAND_IN_H
#define RAYLIB_STAND_IN_H
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Color { unsigned char r, g, b, a; } Color;
typedef struct Vector2 { float x, y; } Vector2;
typedef struct Rectangle { float x, y, width, height; } Rectangle;
typedef struct Texture2D { int id; } Texture2D;
#define PI 3.14159265358979323846f
#define WHITE ((Color){ 255, 255, 255, 255 })
#define BLACK ((Color){ 0, 0, 0, 255 })
#define RED ((Color){ 230, 41, 55, 255 })
#define ORANGE ((Color){ 255, 161, 0, 255 })
#define YELLOW ((Color){ 253, 249, 0, 255 })
#define GREEN ((Color){ 0, 228, 48, 255 })
#define SKYBLUE ((Color){ 102, 191, 255, 255 })
#define BLUE ((Color){ 0, 121, 241, 255 })
#define PURPLE ((Color){ 200, 122, 255, 255 })
#define InitWindow(...) ((void)0)
#define CloseWindow(...) ((void)0)
#define SetTargetFPS(...) ((void)0)
#define BeginDrawing(...) ((void)0)
#define EndDrawing(...) ((void)0)
#define ClearBackground(...) ((void)0)
#define DrawRectangle(...) ((void)0)
#define DrawText(...) ((void)0)
#define DrawTexture(...) ((void)0)
#define DrawTexturePro(...) ((void)0)
#define DrawLine(...) ((void)0)
#define DrawLineEx(...) ((void)0)
#define DrawCircle(...) ((void)0)
#define DrawFPS(...) ((void)0)
#define UnloadTexture(...) ((void)0)
#define ToggleFullscreen(...) ((void)0)
#define PlaySound(...) ((void)0)
#define IsKeyDown(...) 0
#define IsKeyPressed(...) 0
#define IsWindowReady(...) 0
#define MeasureText(...) 0
#define TextFormat(...) ""
#define LoadTexture(...) ((Texture2D){ 0 })
#endif
