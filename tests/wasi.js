// Runs a WASI program: node tests/wasi.js program.wasm arguments…
const { WASI } = require('wasi'), fs = require('fs');
const wasi = new WASI({ version: 'preview1', args: process.argv.slice(2), preopens: { '.': '.' } });
WebAssembly.instantiate(fs.readFileSync(process.argv[2]), { wasi_snapshot_preview1: wasi.wasiImport }).then(
    module => { process.exitCode = wasi.start(module.instance); });
