"""The pages of `make web` in Chromium and Firefox without a screen: python3 tests/check_web.py SITE FLIGHT [SCREENSHOTS]

Opens every page of the folder SITE in windows of three sizes, in which it must fit, and looks for errors in the console and
for links that lead nowhere. Then it plays with those pages that have a function look_at_…: FLIGHT is the hash that a flight
of 300 agents for 300 frames must end with, which swarm prints as flight=… with --isa portable. Screenshots go to a folder.
In Firefox, if it is there, pages are opened in one size, and only the one that learns is played with."""

import base64
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

OPTIONS = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,860"]}

FLY = """
const done = arguments[1], fly = async eager => {
    const program = await begin(await unpack("code"), 300);
    load(program, await unpack("network"));
    for (let frame = 0; frame < 300; frame++) {
        program.look_around();
        program.decide(eager);
        program.fly_on(NaN, NaN);
    }
    return BigInt.asUintN(64, program.hash()).toString(16).padStart(16, "0");
};
fly(arguments[0]).then(done, error => done(String(error)));
"""
WAIT = """
const [condition, seconds, done] = arguments, begun = performance.now(), holds = new Function(condition);
const timer = setInterval(() => {
    const over = performance.now() - begun > 1000 * seconds;
    if (holds() || over) { clearInterval(timer); done(holds()); }
}, 50);
"""
RACE = """
const done = arguments[0], least = { batched: Infinity, eager: Infinity }, begun = performance.now();
let seen = 0, last;
const timer = setInterval(() => {
    const now = times.eager[times.eager.length - 1];
    if (now === last) return;
    last = now;
    for (const way in least) least[way] = Math.min(least[way], ...times[way]);
    if (++seen < 25 && performance.now() - begun < 20000) return;
    clearInterval(timer);
    done([least.batched, least.eager, $("rate").textContent, $("rate").title]);
}, 20);
"""
COPY = """
const { width, height } = sky.birds.canvas;
const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
copy.drawImage(sky.birds.canvas, 0, 0);
"""
BIRDS = COPY + """
return copy.getImageData(0, 0, width, height).data.filter((value, i) => i % 4 === 3 && value > 128).length;
"""
POINTER = {"x": 1255, "y": 100} # a corner to which the hawk does not fly by itself
TOUCHED = {"x": 1240, "y": 600}
HAWK = COPY + """
const { left, top } = sky.birds.canvas.getBoundingClientRect();
return `rgb(${[...copy.getImageData(sky.dots * (%(x)d - left), sky.dots * (%(y)d - top), 1, 1).data.slice(0, 3)]})` === sky.hawk;
"""


SIZES = ((1280, 800), (844, 390), (390, 844), (1280, 800)) # the last one is that in which pages are played with


def stop(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Browser:
    """What tests ask of any browser."""

    def wait(self, condition, seconds):
        return self.run(WAIT, condition, seconds, kind="async")


class Chromium(Browser):
    """A session of a WebDriver: chromedriver, which finds Chromium."""

    name, mark, sizes, plays = "Chromium", "", SIZES, ("learn", "playground", "policy", "swarm")

    def __init__(self):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        self.base = ""

    def open(self):
        port = next(filter(None, (re.search(r"successfully on port (\d+)", line) for line in self.driver.stdout))).group(1)
        self.base = "http://127.0.0.1:%s/session" % port
        wanted = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": OPTIONS}
        self.base += "/" + self.call("", capabilities={"alwaysMatch": wanted})["sessionId"]
        self.call("/timeouts", script=200000)

    def call(self, path, method="POST", **data):
        request = urllib.request.Request(self.base + path, method=method, headers={"Content-Type": "application/json"},
                                         data=json.dumps(data).encode() if method == "POST" else None)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)["value"]

    def run(self, script, *arguments, kind="sync"):
        return self.call("/execute/" + kind, script=script, args=arguments)

    def resize(self, width, height):
        self.call("/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params=shape(width, height))

    def go(self, url):
        self.call("/url", url=url)

    def picture(self):
        return self.call("/screenshot", "GET")

    def told(self):
        return self.call("/se/log", type="browser")

    def close(self):
        try:
            if "/session/" in self.base:
                self.call("", "DELETE")
        finally:
            stop(self.driver)


class Firefox(Browser):
    """A session of Marionette, which Firefox speaks on a socket: JSON behind its length."""

    name, mark, sizes, plays = "Firefox", "-firefox", SIZES[-1:], ("learn",)

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="firefox-", dir=os.path.abspath("build"))
        self.process, self.socket, self.calls = None, None, 0

    def begin(self):
        with open(os.path.join(self.profile, "user.js"), "w", encoding="utf-8") as file:
            file.write('user_pref("marionette.port", 0);\n') # any that is free
        command = [FIREFOX, "--headless", "--no-remote", "--marionette", "--remote-allow-system-access", "--profile", self.profile]
        with open(FIREFOX_LOG, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HOME": self.profile})

    def open(self):
        self.begin()
        port, end = os.path.join(self.profile, "MarionetteActivePort"), time.monotonic() + 60
        while not os.path.isfile(port) or not os.path.getsize(port):
            if self.process.poll() is not None or time.monotonic() > end:
                raise failure("Firefox does not begin")
            time.sleep(0.1)
        with open(port, encoding="utf-8") as file:
            self.socket = socket.create_connection(("127.0.0.1", int(file.read())), timeout=300)
        self.stream = self.socket.makefile("rb")
        self.answer() # Firefox's greeting
        self.call("WebDriver:NewSession")
        self.call("WebDriver:SetTimeouts", script=200000)
        self.go("about:blank") # its first page allows no eval

    def answer(self):
        length = b""
        while not length.endswith(b":"):
            length += self.read(1)
        return json.loads(self.read(int(length[:-1])))

    def read(self, count):
        read = self.stream.read(count)
        if len(read) < count:
            raise failure("Firefox has ended")
        return read

    def call(self, command, **data):
        self.calls += 1
        message = json.dumps([0, self.calls, command, data]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, answer = self.answer()
        if error:
            raise RuntimeError("%s: %s" % (command, error["message"]))
        return answer.get("value") if isinstance(answer, dict) else answer

    def run(self, script, *arguments, kind="sync"):
        """By eval, which sees what the page declared by const and let."""
        command = {"sync": "WebDriver:ExecuteScript", "async": "WebDriver:ExecuteAsyncScript"}[kind]
        function = json.dumps("(function () {%s\n})" % script)
        return self.call(command, script="return window.eval(%s).apply(null, arguments)" % function, args=arguments)

    def resize(self, width, height):
        for _ in range(2): # twice, since the bars are known only after the first
            bars = self.run("return [outerWidth - innerWidth, outerHeight - innerHeight]")
            self.call("WebDriver:SetWindowRect", width=width + bars[0], height=height + bars[1])

    def go(self, url):
        self.call("WebDriver:Navigate", url=url)

    def picture(self):
        return self.call("WebDriver:TakeScreenshot", full=False)

    def told(self):
        self.call("Marionette:SetContext", value="chrome")
        told = self.call("WebDriver:ExecuteScript", script=TOLD, args=[])
        self.call("Marionette:SetContext", value="content")
        return told

    def close(self):
        if self.socket:
            self.socket.close()
        if self.process:
            stop(self.process)
        shutil.rmtree(self.profile, ignore_errors=True)


FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
FIREFOX_LOG = "build/firefox.log"


def failure(what):
    with open(FIREFOX_LOG, encoding="utf-8", errors="replace") as log:
        return RuntimeError("%s. It says: %s" % (what, log.read()[-2000:]))


# Errors of pages and of their threads, without warnings.
TOLD = """
const errors = Services.console.getMessageArray().filter(message =>
    message instanceof Components.interfaces.nsIScriptError && !(message.flags & 1) && /^(file|blob):/.test(message.sourceName));
Services.console.reset();
return errors.map(error => `${error.sourceName}:${error.lineNumber}: ${error.errorMessage}`);
"""
FITS = """
const [width, height] = arguments, page = document.scrollingElement, { clientWidth, clientHeight } = page;
return innerWidth === width && innerHeight === height && clientWidth === width && clientHeight === height &&
    page.scrollWidth <= width && page.scrollHeight <= height;
"""
LINKS = "return [...document.querySelectorAll('a')].map(link => link.href).filter(link => link.startsWith('file:'))"
LARGEST_SITE = 3000000


def shape(width, height):
    return {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 1000}


def every_page(browser, site, name, screenshots):
    """Yields what must hold in every page, and leaves it open."""
    url = "file://" + os.path.join(os.path.abspath(site), name + ".html")
    for width, height in browser.sizes:
        browser.resize(width, height)
        if width != SIZES[-1][0] or browser.run("return location.href") != url:
            browser.go(url)
        browser.wait("return document.readyState === 'complete'", 10)
        browser.wait("return typeof ready === 'undefined' || ready()", 30)
        yield "%s fits into %d x %d" % (name, width, height), browser.run(FITS, width, height)
        with open(os.path.join(screenshots, "%s-%dx%d%s.png" % (name, width, height, browser.mark)), "wb") as file:
            file.write(base64.b64decode(browser.picture()))
    yield "%s says what it shows" % name, browser.run("return document.title && document.querySelector('h1')?.textContent")


def dead_links(links):
    """Those that lead to no file, or to no function that its file defines."""
    for link in sorted(links):
        path, _, target = urllib.parse.unquote(link[len("file://"):]).partition("#")
        text = open(path, encoding="utf-8").read() if os.path.isfile(path) else None
        in_source = text is not None and "/source/" in path
        if text is None or (in_source and target and not re.search(DEFINED % re.escape(target), text, re.M)):
            yield link


DEFINED = r"^[A-Za-z].*\b(?:PAGE\()?%s\)?\(.*[^;]$" # as source.html finds it


def lures(browser, action, there):
    """Whether the hawk comes to where an action lures it, for some seconds each time."""
    for _ in range(10):
        browser.call("/actions", actions=[action])
        if browser.wait(there, 2):
            return True
        browser.call("/actions", "DELETE")
    return False


def look_at_swarm(browser, wanted):
    """Flies with a pointer and a finger, counts birds, races both ways, folds the panels, and learns."""
    yield "it flies a thousand birds", browser.wait("return ready()", 30) and browser.run(BIRDS) > 1000 * 20
    batched, eager, *rate = browser.run(RACE, kind="async")
    print("1000 birds: the network takes %.1f ms batched, %.1f one at a time; %s, %s" % (batched, eager, *rate))
    yield "batched is faster: %.1f and %.1f ms" % (batched, eager), 0 < 1.2 * batched < eager
    bars = browser.run("return ['batched', 'eager'].map(way => [parseFloat($(way + '_bar').style.width), parseFloat($(way + '_ms').textContent)])")
    yield "bars are as long as times, %s" % bars, abs(bars[0][0] * bars[1][1] / (bars[1][0] * bars[0][1]) - 1) < 0.05
    yield "both ways have the same bits", browser.run("return /^same bits [0-9a-f]{8}$/.test($('bits').textContent)")
    mouse = {"type": "pointer", "id": "mouse", "actions": [dict(POINTER, type="pointerMove")]}
    yield "the hawk flies to the pointer", lures(browser, mouse, HAWK % POINTER)
    touch = [dict(TOUCHED, type="pointerMove"), {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
    finger = {"type": "pointer", "id": "finger", "parameters": {"pointerType": "touch"}, "actions": touch}
    yield "and to where the page is touched", lures(browser, finger, HAWK % TOUCHED)
    for eager, name in enumerate(("batched", "eager")):
        ended = browser.run(FLY, eager, kind="async")
        yield "%s: the flight ends with %s, natively with %s" % (name, ended, wanted), ended == wanted

    many = browser.run(BIRDS)
    browser.run("$('count').value = 50; $('count').oninput(); $('eager').click()")
    yield "fifty birds, one at a time", browser.wait("return times.eager.length && times.frame.length > 5", 30)
    yield "fewer birds are drawn", 1.5 * browser.run(BIRDS) < many
    browser.run("$('batched').click(); $('learn').click()")
    yield "it learns", browser.wait("return /^lesson ([3-9]|..).*error [0-9.]+$/.test($('lesson').textContent)", 60)
    before, lesson = browser.run("return [$('curve').toDataURL(), $('lesson').textContent]")
    yield "a lesson follows", browser.wait("return $('lesson').textContent !== '%s'" % lesson, 20)
    yield "the curve grows", browser.run("return $('curve').toDataURL()") != before
    browser.run("$('learn').click()")
    yield "it remembers", browser.run("return $('lessons').hidden")
    yield from look_at_small_swarm(browser)


PANELS_FIT = """
const [above, below] = [...document.querySelectorAll(".glass")].map(panel => panel.getBoundingClientRect());
return above.top >= 0 && below.left >= 0 && below.right <= innerWidth && below.bottom <= innerHeight && above.bottom < below.top;
"""


def look_at_small_swarm(browser):
    """On a telephone both bars are shown and all else is folded; unfolded, it fits."""
    for width, height in SIZES[1:]:
        browser.resize(width, height)
        browser.call("/refresh")
        browser.wait("return ready()", 30)
        folded = browser.run("return !$('about').open && !$('more').open")
        yield "panels are folded at %d x %d: %s" % (width, height, folded), folded == (width < 1000)
        shown = "return ['batched_bar', 'eager_bar'].every(id => $(id).getBoundingClientRect().width > 0)"
        yield "both bars are shown at %d x %d" % (width, height), browser.run(shown)
        for panel in ("about", "more"):
            browser.run("$('%s').open = true" % panel)
            yield "'%s' unfolded fits at %d x %d" % (panel, width, height), browser.wait(PANELS_FIT, 5) and browser.run(FITS, width, height)


DROP = """
const [name, base64, done] = arguments, bytes = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0)), dropped = new DataTransfer();
dropped.items.add(new File([bytes], name));
const event = new DragEvent("drop", { dataTransfer: dropped, cancelable: true, bubbles: true }), take = ondrop;
ondrop = event => take(event).then(() => done(event.defaultPrevented), error => done(String(error)));
document.querySelector("#drop, #panels").dispatchEvent(event);
ondrop = take;
"""
SLIDE = """
const slider = document.querySelectorAll("#inputs input[type=range]")[arguments[0]];
slider.value = arguments[1];
slider.dispatchEvent(new Event("input"));
"""
# Bits of the outputs and of the states that they become.
BITS = "return now.outputs.map((output, i) => [...new Uint32Array(program.memory.buffer, program.computed_values(i), output.count)]);"
MEMORY = "return program.memory.buffer.byteLength"
STEPS = """
#include <stdio.h>
#include <string.h>
#include "policy.c"
int main(void)
{
    static const float in[] = { %s };
    float out[%d];
    unsigned bits;
    policy_state s;
    policy_reset(&s);
    for (int step = 0; step < %d; step++) {
        policy_step(&s, in, out);
        for (size_t i = 0; i < sizeof out / sizeof *out; i++) memcpy(&bits, &out[i], 4), printf("%%u ", bits);
    }
    return 0;
}
"""


def bits_of(values):
    return list(struct.unpack("<%dI" % len(values), struct.pack("<%df" % len(values), *values)))


def natively(folder, name, inputs):
    """Bits of the outputs that the native program computes, one after another."""
    with open(os.path.join(folder, "in.csv"), "w", encoding="utf-8") as file:
        file.write(",".join("%.9g" % value for value in inputs))
    subprocess.run([os.path.abspath(os.environ["POLICY"]), name, "--in", "in.csv", "--out", "out.csv"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "out.csv"), encoding="utf-8") as file:
        return bits_of([float(value) for value in file.read().split(",")])


def drop(browser, name, content):
    return browser.run(DROP, name, base64.b64encode(content).decode(), kind="async")


def look_at_policy(browser):
    """Drops files, moves sliders, takes steps, and compiles the C. POLICY: the native program, on portable kernels."""
    folder = os.path.dirname(os.path.abspath(os.environ["POLICY"]))
    with open("tests/policy.onnx", "rb") as file:
        content = file.read()
    yield "what is no ONNX file is refused in words", drop(browser, "page.onnx", b"<!doctype html>") is True and \
        browser.run("return !$('drop').hidden && /^page.onnx is not read. onnx: /.test($('refused').textContent)")
    yield "a file is dropped", drop(browser, "policy.onnx", content) is True
    told = browser.run("return [...document.querySelectorAll('#contract .tensor')].map(line => line.innerText.replace(/\\s+/g, ' '))")
    yield "the contract is %s" % told, told == ["policy.onnx 756 bytes", "parameters 114", "obs [1 × 4]", "actions [1 × 2]"]
    before, inputs = browser.run(BITS), [1.25, -0.5, 2.75, 0.12]
    for i, value in enumerate(inputs):
        browser.run(SLIDE, i, value)
    after = browser.run(BITS)
    yield "outputs follow the sliders", before != after and browser.run(
        "return [...document.querySelectorAll('#outputs output')].every((output, i) => Math.abs(output.textContent - "
        "new Float32Array(program.memory.buffer, program.computed_values(0), 2)[i]) < 1e-4)")
    with open(os.path.join(folder, "dropped.onnx"), "wb") as file:
        file.write(content)
    yield "the native program has the same bits", after[0] == natively(folder, "dropped.onnx", inputs)
    held = browser.run(MEMORY)
    for _ in range(20):
        drop(browser, "policy.onnx", content)
    yield "memory of files is given back", browser.run(MEMORY) == held
    yield from look_at_states(browser, folder, inputs)
    for width, height in SIZES:
        browser.resize(width, height)
        for tab in range(1, 4):
            browser.run("document.querySelector('#tabs button:nth-child(%d)').click()" % tab)
            yield "part %d fits into %d x %d" % (tab, width, height), browser.run(FITS, width, height)


def look_at_states(browser, folder, inputs):
    """The example feeds a state back: steps in the page, of the native program and of the compiled C have the same bits."""
    browser.run("openExample().then(arguments[0])", kind="async")
    yield "states are paired", browser.run("return $('contract').innerText.includes('h_in ← h_out') && !$('states').hidden")
    for i, value in enumerate(inputs):
        browser.run(SLIDE, i, value)
    with open(os.path.join(folder, "example.onnx"), "wb") as file:
        file.write(base64.b64decode(browser.run("return btoa(String.fromCharCode(...now.bytes))")))
    steps, wanted, state = [], [], [0.0] * 8
    for _ in range(3):
        steps.append(browser.run(BITS))
        wanted.append(natively(folder, "example.onnx", inputs + state))
        state = struct.unpack("<8f", struct.pack("<8I", *wanted[-1][2:]))
        state = list(state)
        browser.run("$('step').click()")
    yield "a state changes what comes next", steps[0][0] != steps[1][0]
    yield "steps of the native program have the same bits", [actions + after for actions, after in steps] == wanted
    with open(os.path.join(folder, "policy.c"), "w", encoding="utf-8") as file:
        file.write(browser.run("return new TextDecoder().decode(now.text)"))
    with open(os.path.join(folder, "steps.c"), "w", encoding="utf-8") as file:
        file.write(STEPS % (", ".join("%ff" % value for value in inputs), 2, 3))
    command = os.environ.get("CC", "cc").split() + ["-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-o", "steps", "steps.c"]
    compiled = subprocess.run(command, cwd=folder, check=False).returncode == 0
    yield "the C compiles", compiled
    printed = subprocess.run(["./steps"], cwd=folder, check=True, capture_output=True, text=True).stdout if compiled else ""
    yield "its steps have the same bits", [int(word) for word in printed.split()] == [bits for actions, _ in steps for bits in actions]


FIGURES = "return ['calls', 'batches', 'problem', 'plan', 'same'].map(id => $(id).textContent)"
TYPE = "$('text').value = arguments[0]; $('text').dispatchEvent(new Event('input'))"
TYPED = {
    "trees": "[MAX 1 2 [MIN 3 4]]\n\n  [SUM 5 [MED 6 7] 8]  \n9",
    "lists": 'say "why" \\ ??/ or\nnot\ncaf\u00e9',
    "agents": "crumb 1,2 hawk -1.5,0\nnothing\nwall 0,1 wall 1,1",
}


def runs_shown(browser):
    """What the program that the page shows prints, compiled with the object of `make web`."""
    with open("build/web/shown.c", "w", encoding="utf-8") as file:
        file.write(browser.run("$('show_code').click(); return $('code').textContent"))
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-O0", "-DFOLD__IMPLEMENTED", "-I.", "-o", "build/web/shown", "build/web/shown.c",
                    "build/web/native.o", "-lm", "-lpthread"], check=True)
    browser.run("$('show_plan').click()")
    return subprocess.run(["build/web/shown"], capture_output=True, text=True, check=True).stdout.strip()


def look_at_playground(browser):
    """Types networks of all kinds, follows the link, and runs the C that is shown."""
    yield "all runs have the same bits", "the same bits" in browser.run(FIGURES)[4]
    for net, typed in TYPED.items():
        browser.run("$('net_%s').click()" % net)
        before = browser.run(FIGURES)
        browser.run(TYPE, typed)
        calls, batches, problem, plan, _ = browser.run(FIGURES)
        yield "%s: each key draws the plan anew, with %s" % (net, problem), plan != before[3] and not problem
        told, ran = "%s calls in %s batches" % (calls, batches), runs_shown(browser)
        yield "%s: the page says %s, its C %s" % (net, told, ran), told == ran and told in plan
        yield "%s: is timed again" % net, browser.wait("return waiting && $('same').textContent.startsWith('128 ')", 10)
        link = browser.run("return location.href")
        browser.go("about:blank")
        browser.go(link)
        yield "%s: the link carries the text" % net, browser.wait("return $('text').value === %s" % json.dumps(typed), 10)
    browser.run("choose('trees'); " + TYPE, "7\n[MAX 1 [MIN 2 3]")
    yield "an open list is told", browser.run(FIGURES)[2] == "line 2: a ] is missing"
    browser.run(TYPE, "[MAX 1 2]" * 10000)
    yield "too much text is told", "more text" in browser.run(FIGURES)[2]


SAID = "return document.querySelector('.failed')?.textContent"
REFUSED = { # by the program, in its own words
    "--environments x": "train: --environments needs a whole number from 1 to 10000, not 'x'\n",
    "top": "train: there is no option top; -h lists those there are\n",
    "--load file": "train: a page has no --svg, --save, --load or --flush\n",
    "--eager " * 40: "There are too many options.",
}
THOUSAND = "--environments 1000 --steps 20 --updates 2"


def natively_learned(options):
    command = ["build/web/native_train", "--isa", "portable", *options.split()]
    return re.search(r" hash=(\w+)", subprocess.run(command, capture_output=True, text=True, check=True).stdout).group(1)


def look_at_learn(browser):
    """Lets it learn to the end, to the native program's hash."""
    frame = "return $('carts').firstElementChild.toDataURL()"
    before, points = browser.run(frame), browser.run("return told.curve.length")
    yield "it learns to the end", browser.wait("return finished", 60)
    yield "carts and the curve move", browser.run(frame) != before and browser.run("return told.curve.length") > points
    score, here, native = browser.run("return ['score', 'here', 'native'].map(id => $(id).textContent)")
    yield "its score is %s" % score, 190 <= int(score) <= 200
    equal = here == native and len(native) == 16 and browser.run("return $('bits').classList.contains('equal')")
    yield "its hash is %s, the native program's %s" % (here, native), equal
    browser.run("$('again').click()")
    yield "it learns again", browser.wait("return !finished && told.more && told.steps > 0", 20)
    page = browser.run("return location.href")
    browser.go("about:blank")
    browser.go(page + "#" + THOUSAND)
    yield "a thousand agents learn", browser.wait("return typeof finished !== 'undefined' && finished", 60)
    here, native = browser.run("return $('here').textContent"), natively_learned(THOUSAND)
    yield "their hash is %s, the native program's %s" % (here, native), here == native
    for options, words in REFUSED.items():
        browser.go("about:blank")
        browser.go(page + "#" + options)
        yield "%s: %s" % (options[:20], words), browser.wait(SAID, 20) and browser.run(SAID) == words
    browser.told() # the same words


PLAYS = {"learn": look_at_learn, "playground": look_at_playground, "policy": look_at_policy, "swarm": look_at_swarm} # pages that are played with


def look_at_pages(browser, site, flight, screenshots, links):
    """Yields what was tested of all pages and whether it holds, and adds their links."""
    browser.open()
    for name in sorted(file[:-5] for file in os.listdir(site) if file.endswith(".html")):
        yield from every_page(browser, site, name, screenshots)
        links.update(browser.run(LINKS))
        yield from PLAYS[name](browser, *[flight][:name == "swarm"]) if name in browser.plays else ()
        told = browser.told()
        yield "%s: the console is empty, and not: %s" % (name, told), not told


def look_at_site(site, links):
    dead = list(dead_links(links))
    yield "links lead to files and functions, and not: %s" % dead, links and not dead
    size = sum(os.path.getsize(os.path.join(path, file)) for path, _, files in os.walk(site) for file in files)
    print("the site has %d bytes" % size)
    yield "the site has at most %d bytes" % LARGEST_SITE, size <= LARGEST_SITE


def look_at(site, flight, screenshots):
    """Yields what was tested and whether it holds."""
    os.makedirs(screenshots, exist_ok=True)
    links = set()
    for kind in (Chromium, Firefox):
        if kind is Firefox and not FIREFOX:
            print("SKIPPED: the pages in Firefox (firefox-esr is not installed)")
            continue
        browser = kind()
        try:
            for what, holds in look_at_pages(browser, site, flight, screenshots, links):
                yield "%s: %s" % (browser.name, what), holds
        finally:
            browser.close()
    yield from look_at_site(site, links)


def main():
    failed, passed = 0, 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)) # so that browsers are closed when the job is stopped
    for what, holds in look_at(*(sys.argv[1:] + ["build/screenshots"])[:3]):
        passed += bool(holds)
        failed += not holds
        if not holds:
            print("FAILED:", what)
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
