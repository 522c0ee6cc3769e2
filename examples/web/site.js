// What all pages share: their programs, which are WebAssembly, base64 of gzip in the page itself.
"use strict";
const $ = id => document.getElementById(id);

async function unpack(id) {
  const packed = Uint8Array.from(atob($(id).textContent), letter => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// An instance of a program. It imports no more than what it needs to know the time, and to say why it ends.
async function start(code) {
  let told = "";
  const imports = {
    fd_write(file, pieces, count, written) {
      const memory = new DataView(program.memory.buffer);
      let size = 0;
      for (let i = 0; i < count; i++) {
        const at = memory.getUint32(pieces + 8 * i, true), length = memory.getUint32(pieces + 8 * i + 4, true);
        const bytes = new Uint8Array(memory.buffer, at, length);
        told += new TextDecoder().decode(bytes);
        size += bytes.length;
      }
      memory.setUint32(written, size, true);
      return 0;
    },
    clock_time_get(clock, precision, at) {
      new DataView(program.memory.buffer).setBigUint64(at, BigInt(Math.round(1e6 * performance.now())), true);
      return 0;
    },
    fd_prestat_get: () => 8, path_open: () => 44, // there are no folders, and no files: EBADF and ENOENT
    proc_exit() { throw Object.assign(new Error(told), { name: "Ended" }); },
  };
  const rest = new Proxy(imports, { get: (known, name) => known[name] ?? (() => 0) });
  const program = (await WebAssembly.instantiate(code, { wasi_snapshot_preview1: rest })).instance.exports;
  program._initialize();
  return program;
}

// Text of the program that ends with a 0, and back.
function text(program, at) {
  const bytes = new Uint8Array(program.memory.buffer, at);
  return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
}
function give(program, at, size, what) {
  const bytes = new TextEncoder().encode(what);
  if (bytes.length >= size) return false;
  const memory = new Uint8Array(program.memory.buffer, at, size);
  memory.set(bytes);
  memory[bytes.length] = 0;
  return true;
}

function failed(error) {
  const told = document.createElement("p");
  told.className = "failed";
  told.textContent = error.name === "Ended" ? error.message : `This needs a browser of 2023 or later. (${error.message})`;
  document.querySelector("main, header").append(told);
  throw error;
}
