// Runs the graphs of tests/make_onnx.py --random through ONNX Runtime, beside what numpy and fold_onnx.h computed.
//     python3 tests/make_onnx.py --random 5000 1 graphs.bin
//     cc -O2 -o random_onnx tests/random_onnx.c -lm && ./random_onnx graphs.bin "" 1 -1 results.bin
//     FOLD_ORT=folder node tests/check_onnx.js graphs.bin results.bin
// FOLD_ORT names the folder in which `npm install onnxruntime-node` ran; without it node looks where it always looks. With --there it
// says only whether it is there, by its status.
const fs = require('fs'), path = require('path');
const folders = [...(process.env.FOLD_ORT ? [path.resolve(process.env.FOLD_ORT)] : []), process.cwd(), __dirname];
let found;
try { found = require.resolve('onnxruntime-node', { paths: folders }); } catch { process.exit(3); }
const runtime = require(found), AGENTS = 3;
if (process.argv[2] === '--there') process.exit(0);

class Reader {
    constructor(file) { this.bytes = fs.readFileSync(file); this.at = 0; }
    int() { this.at += 4; return this.bytes.readInt32LE(this.at - 4); }
    take(size) { this.at += size; return this.bytes.subarray(this.at - size, this.at); }
    floats(count) { return new Float32Array(new Uint8Array(this.take(4 * count)).buffer); }
    tensor() {
        const length = this.int(), count = this.int();
        return { name: this.take(length).toString(), count, values: Array.from({ length: AGENTS }, () => this.floats(count)) };
    }
}

// Sums of numbers of a size round; infinities and NaN must be the same. As `near` of tests/random_onnx.c.
function near(a, b) {
    if (a.length !== b.length) return false;
    let most = 0.05;
    for (const value of b) if (isFinite(value)) most = Math.max(most, Math.abs(value));
    return a.every((value, i) => Object.is(value, b[i]) || value === b[i] || Math.abs(value - b[i]) <= 1e-4 * most);
}

// What the kernels of ONNX Runtime do not have, though ONNX has it.
const notThere = [/layout == 1/];
const counts = { graphs: 0, failed: 0, refused: 0 };
function fails(number, ...words) { counts.failed++; console.log(`graph ${number}:`, ...words); }

// Each agent has a session of its own: BatchNormalization that trains writes its running statistics to the weights of the session.
async function run(bytes, inputs, outputs, agent) {
    const session = await runtime.InferenceSession.create(bytes, { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, logSeverityLevel: 4 });
    try {
        const shapes = Object.fromEntries(session.inputMetadata.map(input => [input.name, input.shape.map(dim => dim > 0 ? dim : 1)]));
        const feeds = Object.fromEntries(inputs.map(t => [t.name, new runtime.Tensor('float32', t.values[agent], shapes[t.name])]));
        const made = await session.run(feeds, outputs.map(t => t.name));
        return outputs.map(t => Float32Array.from(made[t.name].data, Number));
    } finally {
        await session.release();
    }
}
async function check(number, bytes, inputs, outputs, results) {
    for (let agent = 0; agent < AGENTS; agent++) {
        let right;
        try {
            right = await run(bytes, inputs, outputs, agent);
        } catch (error) {
            counts.refused++;
            if (!notThere.some(known => known.test(error.message))) fails(number, 'ONNX Runtime refuses it:', error.message);
            return;
        }
        outputs.forEach((t, i) => {
            if (!near(t.values[agent], right[i])) fails(number, `numpy differs in ${t.name} of agent ${agent}: ${t.values[agent]} and ${right[i]}`);
            if (results && !near(results[i][agent], right[i]))
                fails(number, `fold_onnx.h differs in ${t.name} of agent ${agent}: ${results[i][agent]} and ${right[i]}`);
        });
    }
}

async function main() {
    const graphs = new Reader(process.argv[2]), results = process.argv[3] ? new Reader(process.argv[3]) : null;
    for (let size = graphs.int(); size > 0; size = graphs.int(), counts.graphs++) {
        const n_in = graphs.int(), n_out = graphs.int(), bytes = new Uint8Array(graphs.take(size));
        const inputs = Array.from({ length: n_in }, () => graphs.tensor()), outputs = Array.from({ length: n_out }, () => graphs.tensor());
        const made = results && outputs.map(t => Array.from({ length: AGENTS }, () => results.floats(t.count)));
        await check(counts.graphs, bytes, inputs, outputs, made);
    }
    console.log(`RESULT check_onnx graphs=${counts.graphs} failed=${counts.failed} refused=${counts.refused}`);
    process.exit(counts.failed || !counts.graphs ? 1 : 0);
}
main();
