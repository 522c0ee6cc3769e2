# The examples on small settings: each compiles by its own cc line, and its steps check what it prints: its
# RESULT line (prints: its keys; reaches: its numbers; same_hash), or any line (says). tests/all
# compiles them whole.

. tests/jobs/programs.sh # linked

example() { # name, the implementation it is linked to
    step "$1: its cc line" sh -c "$(linked "${2:-any}" "examples/$1.c")"
    ! grep -q '"-h"\|"options.h"' "examples/$1.c" || options "$1"
}
options() { # name: -h tells how it is used, and what is wrong is named
    step "$1 -h" sh -c "./build/$1 -h | grep -q '^usage: '"
    if ! grep -qh '"options.h"' examples/"$1".c*; then return; fi
    step "$1 refuses --sead" sh -c "! ./build/$1 --sead 1 2>$out/said && grep -q 'no option --sead' $out/said"
    if grep -qh '"--seed"' examples/"$1".c*; then step "$1 refuses --seed 1x" refuses "./build/$1"; fi
}
# What trains for long is `long`: sanitizers see no more there than in shorter training.
prints() { step "$1" ends_with_result "$2" "$3"; }
reaches() { step "$1" holds "$2" "$3"; }
long() { sanitizing || "$@"; }
real() { [ -z "${FOLD_DATA:-}" ] || "$@"; } # without such data real_data says what is skipped

small_examples() {
    for each in hello plan notebook parity replay save; do example $each; done
    prints "parity" ./build/parity "RESULT parity right_before= right_of_12=100.0 right_of_100=100.0 hash="
    step "parity learns the same in every run" same_hash ./build/parity
    prints "save" "(cd $out && ../../save)" "RESULT save won_before= of=100 won_after= of=500 same=1"
    step "save learns the player's habits, the same in every run" save_learns
    keys="RESULT replay calls=39 samples=4 bytes= ways= same= printed="
    prints "replay" "(cd $out && ../../replay --write small.foldrecord)" "$keys"
    prints "replay of a file" "(cd $out && ../../replay small.foldrecord)" "$keys"
    step "replay names the first node that differs" says "$(altered_replay)" \
        "as in the file, eager .*: node [0-9]* (join, .*: values here are not those in the file"
    prints "notebook" ./build/notebook "RESULT notebook checked=31 wrong=0"
    step "notebook prints its batches" notebook_batches
    example mpi_sick sharing
    small="./build/mpi_sick --pairs 150 --hidden 12 --epochs 1"
    keys="RESULT mpi_sick ranks=1 shards=3 threads= loss= hash= same=1 pairs_per_s="
    prints "mpi_sick" "FOLD_DATA= $small --shards 3 --threads 2" "$keys data=generated"
    step "mpi_sick: shards change the loss by rounding alone" same_loss "FOLD_DATA= $small"
    real prints "mpi_sick on real pairs" "$small --shards 3" "$keys data=sick"
}
altered_replay() { # a command that plays small.foldrecord with another bias
    echo "(cd $out && sed 's/^param join.b .*/param join.b 0 6 values 3f800000*6 ;/' small.foldrecord >other.foldrecord
        ../../replay other.foldrecord)"
}
save_learns() { # it writes its file where it runs
    for run in first second; do (cd "$out" && ../../save >$run) || return; done
    cmp "$out/first" "$out/second" && holds "cat $out/first" "won_after > 400"
}
notebook_batches() { # the shared part is joined once a step, and multiplied for all cells that it meets
    ./build/notebook | grep -cE -e "concat\(axis 1\) = 1 x \(15 of numbers \[1 x 1\]\) -> \[1 x 15\]" \
        -e "matmul = (100|10) x \(numbers \[1\], shared concat \[1 x 15\]\) -> \[15\]" | grep -x 4
}
same_loss() { # command of mpi_sick: 1, 2 and 4 shards come to the same loss but for 1e-5
    for n in 1 2 4; do eval "$1 --shards $n"; done | awk '
        { sub(/.*loss=/, "") }
        /^[0-9]/ { n++; if (n == 1) first = $1; wrong += !($1 > 0 && $1 - first < 1e-5 && first - $1 < 1e-5) }
        END { exit n != 3 || wrong }'
}
agents() {
    example agents
    prints "agents" ./build/agents "RESULT agents frames=2000 pairs= hash="
    step "agents decide the same in every run" same_hash ./build/agents
    step "agents decide the same with multiply-adds" agents_again "-O3 $(native)" examples/agents.c
    step "agents: the arrays are as large as it says" smallest_arrays
    cpp_example agents_cpp c++17 || return
    prints "agents_cpp" ./build/agents_cpp "RESULT agents_cpp frames=2000 pairs= hash="
    step "agents_cpp has the bits of agents" same_hash ./build/agents ./build/agents_cpp
}
agents_again() { # flags, source: compiled so it decides the same
    $CC $CFLAGS $1 $declarations -I. -Iexamples -o "$out/again" "$2" build/fold.o -lm -lpthread &&
        same_hash ./build/agents "$out/again"
}
smallest_arrays() { # arrays of exactly the sizes that agents tells
    sizes=$(./build/agents --sizes | sed 's/model/MODEL_BYTES =/; s/context/CONTEXT_BYTES =/; s/ bytes.*/,/')
    sed "s/MODEL_BYTES = [^,]*, CONTEXT_BYTES = [^,]*,/$sizes/; s#\.\./fold.h#fold.h#" examples/agents.c \
        >"$out/agents.c"
    ! cmp -s examples/agents.c "$out/agents.c" && agents_again "" "$out/agents.c"
}
relu() { # a file of one Relu from "input" to "output", of one shape
    kind='\022\016\012\014\010\001\022\010\012\002\010\001\012\002\010\004'
    printf '\010\010B\002\020\015:J\012\025\012\005input\022\006output"\004Relu'
    printf "Z\027\012\005input${kind}b\030\012\006output$kind"
}
policy() { # writes its file where it runs
    example policy
    prints "policy" "(cd $out && ../../policy --agents 5 --out actions.csv --time)" \
        "RESULT policy agents=5 inputs=4 outputs=1 us="
    step "policy reads what others write" sh -c "cd $out && printf '1,2,3,4\\n0 0 0 0\\n' >in.csv &&
        ../../policy policy.onnx --agents 2 --in in.csv --out out.csv &&
        awk -F, 'NF != 2 { bad = 1 } END { exit bad || NR != 2 }' out.csv"
    step "policy says what inputs are" sh -c "cd $out && ../../policy policy.onnx >inputs &&
        grep -q '^input    obs .1 x 4., observation\$' inputs && grep -q '^as C     yes' inputs"
    step "policy takes a shape" says "./build/policy $out/policy.onnx --shape obs=1x4" "input    obs .1 x 4."
    step "policy refuses another shape" says "./build/policy $out/policy.onnx --shape obs=1x5" "do not fit"
    step "policy needs a shape" says "./build/policy $out/policy.onnx --shape obs=1x" "NAME=1x4x60, not 'obs=1x'"
    step "policy binds inputs" says "./build/policy $out/policy.onnx --bind obs=1,2,3,4" "RESULT policy agents=1 inputs=0"
    step "policy refuses other values" says "./build/policy $out/policy.onnx --bind obs=1,2,3" \
        "3 values are bound to a shape of 4"
    step "policy needs values" says "./build/policy $out/policy.onnx --bind obs=x" "NAME=16000, not 'obs=x'"
    step "policy names inputs that are bound" says "./build/policy $out/policy.onnx --bind ob=1" "nearest: 'obs'"
    relu >"$out/relu.onnx"
    step "policy takes no input for a state that is only called so" \
        says "./build/policy $out/relu.onnx" "input    input .1 x 4., observation"
    step "policy names the file that is missing" says "./build/policy no.onnx" "'no.onnx' cannot be opened"
    if [ -z "${FOLD_POLICIES:-}" ]; then skip "policy --check" "FOLD_POLICIES names no folder"; return; fi
    step "policy pairs states" says "./build/policy $FOLD_POLICIES/mlagents-Hallway/model.onnx" \
        ", state: recurrent_in <- recurrent_out"
    for folder in "$FOLD_POLICIES"/*/; do
        prints "policy --check ${folder%/}" "./build/policy --check ${folder%/}" \
            "RESULT policy name=${folder%/} worst= compared= refused=0"
    done
}
torch() { # writes its files where it runs
    example torch
    prints "torch" "(cd $out && ../../torch)" "RESULT torch right_before= right_after= loss= same=1"
    step "torch learns the same from its file, given by name" sh -c \
        "cd $out && ../../torch >first && ../../torch net.safetensors >second && cmp first second"
    reaches "torch learns which value is the largest" "cat $out/first" "right_after > 90"
    step "torch names the tensor that is missing" says "(cd $out && ../../torch trained.safetensors)" \
        "'lstm.weight_ih_l0' is not in the file"
}
listops() {
    example listops
    keys="RESULT listops accuracy= seconds= batched_per_s= eager_per_s= bytes_accuracy= bf16_accuracy="
    prints "listops" "./build/listops --seconds 1 --train 300 --test 50" "$keys identical=1 hash="
    step "listops learns the same network in every run" same_hash \
        "./build/listops --steps 20 --train 100 --test 20"
    step "listops says when time ends it" says "./build/listops --seconds 0.05 --train 500 --test 100" \
        "OUT OF TIME after [0-9]* of 30000 steps"
}
char_lm() {
    keys="RESULT char_lm padded_per_s= bucketed_per_s= dynamic_per_s= perplexity= dynamic_waste=0.0000"
    keys="$keys same_losses=1 close_gradients=1 close_perplexity=1 hash="
    example char_lm
    prints "char_lm" "./build/char_lm --hidden 16 --limit 200 --epochs 1" "$keys data=generated"
    prints "char_lm on a text, with given buckets" \
        "./build/char_lm --data fold.h --limit 300 --hidden 20 --batch 7 --epochs 1 --buckets 30,60,90" \
        "$keys data=file"
    step "char_lm learns the same in every run" same_hash "./build/char_lm --hidden 16 --limit 100 --epochs 1"
    long reaches "char_lm learns" "./build/char_lm --hidden 24 --limit 300 --epochs 3 --batch 4" "perplexity < 7"
}
treelstm_sick() {
    keys="RESULT treelstm_sick pearson= spearman= mse= train_per_s= infer_per_s= eager_train_per_s="
    keys="$keys eager_infer_per_s= identical=1"
    small="./build/treelstm_sick --hidden 16 --seconds 0.05"
    example treelstm_sick
    prints "treelstm_sick" "FOLD_DATA= $small --seeds 2 --epochs 1 --limit 60" "$keys seeds=2 data=generated"
    long reaches "treelstm_sick learns" "FOLD_DATA= $small --epochs 5 --limit 300" "mse < 0.75"
    real prints "treelstm_sick on real pairs" "$small --epochs 1 --limit 100" "$keys seeds=1 data=sick"
}
treelstm_sst() {
    keys="RESULT treelstm_sst accuracy5= accuracy2= epochs= seconds="
    small="./build/treelstm_sst --epochs 1 --hidden 16"
    example treelstm_sst
    prints "treelstm_sst" "FOLD_DATA= $small --limit 100" "$keys"
    real prints "treelstm_sst on real trees" "$small --limit 200" "$keys"
}
mnist() {
    keys="RESULT mnist accuracy= forward_per_s= eager_forward_per_s= train_per_s= eager_train_per_s="
    small="./build/mnist --epochs 1 --limit 2000 --seconds 0.01"
    example mnist
    prints "mnist" "FOLD_DATA= $small" "$keys identical=1 data=generated"
    real reaches "mnist on real digits" "$small | grep data=mnist" "accuracy > 80"
}
shift_reduce() {
    keys="RESULT shift_reduce accuracy= batched_per_s= eager_per_s= identical=1 nodes= batches="
    small="./build/shift_reduce --seconds 0 --epochs"
    if sanitizing; then generated=100 real=40; else generated=500 real=200; fi
    example shift_reduce
    prints "shift_reduce" "$small 1 --limit $generated" "$keys data=generated"
    long reaches "shift_reduce learns" "$small 2 --limit 20000 --hidden 48" "accuracy > 60"
    real prints "shift_reduce on real trees" "$small 1 --data $FOLD_DATA --limit $real" "$keys data=sst"
}
transformer() {
    keys="RESULT transformer accuracy= infer_per_s= train_per_s= padded_infer_per_s= attention_share="
    keys="$keys bytes_accuracy= bf16_accuracy= identical=1"
    small="./build/transformer --width 16 --heads 2 --seconds 0.05"
    example transformer
    prints "transformer" "FOLD_DATA= $small --epochs 1 --limit 130" "$keys data=generated"
    long reaches "transformer learns where words stand" \
        "FOLD_DATA= $small --width 32 --epochs 6 --limit 3000" "accuracy > 30"
    real prints "transformer on real sentences" "$small --epochs 1 --limit 100" "$keys data=sst"
}
molecules() {
    keys="RESULT molecules accuracy= train_per_s= infer_per_s= nodes_per_graph= identical=1"
    small="./build/molecules --folds 2 --seconds 0.05 --width 16"
    example molecules
    prints "molecules" "$small --limit 40 --epochs 1" "$keys network=GIN data=generated"
    prints "molecules, attention" "$small --limit 40 --epochs 1 --attention" \
        "$keys network=attention data=generated"
    # 100 % on kernels with multiply-adds, 87 % on portable ones, which round more often; 48 % after one epoch
    long reaches "molecules learns what takes three rounds" "$small --limit 500 --epochs 60" "accuracy > 80"
    rings "$out/RINGS"
    for network in "" --attention; do
        step "molecules from files $network" rings_are_learned "$small $network --epochs 20 --data $out/RINGS"
    done
    echo 1, 6 >>"$out/RINGS/RINGS_A.txt" && echo 0 >>"$out/RINGS/RINGS_edge_labels.txt"
    step "molecules says what is wrong with a file" says "$small --data $out/RINGS" \
        "an edge of A leaves its graph"
}
rings() { # folder: files as those of real data
    mkdir -p "$1"
    awk -v to="$1/RINGS_" -f tests/jobs/rings.awk
}
rings_are_learned() { # command
    eval "$1" >"$out/rings" && says "cat $out/rings" \
        "12 graphs of 2 classes, 60 atoms of 2 kinds, 120 bonds of 2 kinds" &&
        ends_with_result "cat $out/rings" \
            "RESULT molecules accuracy=100.00 nodes_per_graph=5.0 identical=1 data=file"
}
picture() { # name, file
    what="$1's picture is XML"
    if have xmllint; then step "$what" xmllint --noout "$2"; else skip "$what" "xmllint is not installed"; fi
}
swarm() {
    keys="RESULT swarm p50_us= p99_us= p999_us= worst_us= block_bytes= used_bytes= eager_us= identical=1"
    small="./build/swarm --agents 40 --frames 60"
    example swarm
    prints "swarm" "$small --steps 3 --svg $out/swarm.svg" "$keys error_in_flight= hash="
    long reaches "swarm learns" "$small --steps 40" "error_after < 0.8 * error_before"
    step "swarm learns the same in every run" same_hash "$small --steps 4"
    step "swarm flies by the network that it saved" same_flight "$small"
    prints "swarms of changing sizes stay within a block" "./build/swarm --soak 0.5" \
        "RESULT swarm frames= compared= identical=1 allocations=0 block_bytes="
    picture swarm "$out/swarm.svg"
    step "swarm's picture without animation: 40 agents and the hawk" test "$(sed -n '/"still"/,/"moving"/p' "$out/swarm.svg" | grep -c '<use .*rotate(')" -eq 41
}
same_flight() { # command
    $1 --steps 2 --save "$out/swarm.safetensors" | sed -n 's/.* flight=//p' >"$out/saved"
    $1 --load "$out/swarm.safetensors" | sed -n 's/.* flight=//p' >"$out/loaded"
    test -s "$out/saved" && cmp "$out/saved" "$out/loaded"
}
firmware() { # it is compiled whole: for inference, and without malloc and stdio
    example export
    prints "export" "./build/export --steps 100 --out build/policy_weights.h --save $out/policy.safetensors" \
        "RESULT export bytes= error_before= error_after= hash="
    reaches "export learns to remember" "./build/export --out $out/weights.h" \
        "error_after < 0.1 * error_before"
    step "export of a file: the same array" sh -c \
        "./build/export $out/policy.safetensors --out $out/again.h && cmp $out/again.h build/policy_weights.h"
    # its weights are made up here
    step "firmware: its cc line" sh -c "$(own_line examples/firmware.c "-O1 $warnings")"
    prints "firmware" ./build/firmware "RESULT firmware isa= ram_model= ram_context= tracing= hash="
    ./build/firmware >"$out/made_up"
    step "firmware: the implementation that it asks for" $CC $CFLAGS -O0 \
        $(sed -n 's/^#define \(FOLD_[A-Z_]*\)$/-D\1/p' examples/firmware.c) -c -x c -o build/firmware.o fold.h
    with_weights() { own_line examples/firmware.c "-O0 -Ibuild -DWEIGHTS $declarations $1" build/firmware.o; }
    step "firmware: weights of a file" sh -c "$(with_weights "$warnings")"
    step "firmware: other weights, other actions" other_hash ./build/firmware "cat $out/made_up"
    again() { # defines
        step "firmware: $1" sh -c "$(with_weights "$1 -o firmware_again" | sed 's# -o firmware # #') &&
            ./build/firmware_again | tee $out/again | grep -q '^RESULT'"
    }
    lists=$(./build/firmware | sed -n 's/^sizes .*\(-DPARAMS.*\)/\1/p')
    again "$lists -DMODEL_BYTES=131072 -DCONTEXT_BYTES=65536"
    again "$(sed -n 's/^sizes //p' "$out/again")" # arrays of exactly these sizes
    step "firmware in its own arrays: the same bits" same_hash ./build/firmware "cat $out/again"
}
robot_arm() {
    keys="RESULT robot_arm error_after= tip_mm= run_us= identical=1 recorded= replayed= sliced_tip_mm="
    small="./build/robot_arm --arms 6 --seconds 0.3"
    example robot_arm
    prints "robot_arm" "$small --steps 5 --svg $out/arm.svg" "$keys slice_p99_us= jitter_us= misses= hash="
    long reaches "robot_arm follows its path" "./build/robot_arm --arms 3 --seconds 1 --steps 800" \
        "tip_mm < 0.2 * feedback_mm"
    step "robot_arm moves in the same way in every run" same_hash "$small --steps 20"
    picture robot_arm "$out/arm.svg"
}
rounds() {
    keys="RESULT rounds paths_batches= paths_bound= paths_alone= exits_batches= exits_bound= exits_alone="
    keys="$keys search_batches= search_bound= search_alone= joint_times= exits_right= search_right="
    example rounds
    prints "rounds" ./build/rounds "$keys recomputed=0 identical=1 hash="
    step "rounds come to the same in every run" same_hash ./build/rounds
    ./build/rounds >"$out/rounds"
    reaches "rounds: paths need as few batches as the slowest alone" "cat $out/rounds" \
        "paths_batches == paths_bound && paths_batches < 60 && paths_alone > 2000"
    reaches "rounds: one step for all takes three times as many" "cat $out/rounds" "joint_times > 3"
    reaches "rounds: most points leave early" "cat $out/rounds" \
        "exits_right > 95 && exits_batches == exits_bound && exits_alone < 256 * 8"
    reaches "rounds: searches find perfect moves" "cat $out/rounds" \
        "search_right > 97 && search_batches == search_bound && search_batches < 0.05 * search_alone"
    step "rounds without fold_keep say what they compute again" says "cat $out/rounds" \
        "without fold_keep .* [1-9][0-9]* of them again"
}
game_jobs() { # each plays its games on 1, 2 and 4 threads
    keys="RESULT game_jobs error= hits= rule_hits= idle_hits= shared=24 parts=48 stayed=132 identical=1 hash="
    small="./build/game_jobs --frames 12"
    example game_jobs apart
    prints "game_jobs" "$small --steps 3" "$keys"
    step "game_jobs: small batches stay on one thread" says "$small --steps 0" \
        "^4 threads: .* batches 2.0 are shared out in 8.0 parts, 11.0 stay;"
    step "game_jobs learns the same on 1, 2 and 4 threads" same_hash "$small --steps 8 --threads 1" \
        "$small --steps 8 --threads 2" "$small --steps 8 --threads 4"
    long reaches "game_jobs: robots learn to keep away" "./build/game_jobs --frames 1 --steps 120" "error < 0.8"
}
speech() { # it is wrong by 100 % if it says nothing, and by less than a quarter once it finds the symbols
    keys="RESULT speech error_rate= error_before= train_per_s= eager_train_per_s= infer_per_s= eager_per_s="
    example speech
    prints "speech" "./build/speech --utterances 1000 --tests 100 --epochs 8 \
        --hidden 24 --seconds 0 --svg $out/heard.svg >$out/heard && cat $out/heard" \
        "$keys steps= identical=1 hash="
    reaches "speech learns to hear" "cat $out/heard" "error_rate > 0 && error_rate < 25"
    prints "speech's loss and gradient are sums over all alignments" "./build/speech --check" \
        "RESULT speech check=1 losses=98 gradients=4949 wrong=0"
    step "speech learns the same in every run" same_hash \
        "./build/speech --utterances 64 --tests 10 --epochs 1 --hidden 8 --seconds 0"
    picture speech "$out/heard.svg"
}
cpp_example() { # name, standard: it compiles by the c++ line of its first comment
    has_cpp "$1" "-std=$2" || return
    flags=$(grep -m 1 -oE 'c\+\+ -std[^&]*' "examples/$1.cpp" |
        sed -e 's#^c++##' -e 's#-O2 ##' -e 's#-o #-o build/#')
    step "$1: its c++ line" $CXX $CFLAGS $warnings $declarations -I. $flags build/fold.o -lm && options "$1"
}
cartpole() {
    keys="RESULT cartpole steps= shortest= updates= seen= seconds= hash="
    short="./build/cartpole --updates 3 --episodes 8 --hidden 8"
    cpp_example cartpole c++20 || return
    prints "cartpole" "$short --svg $out/curve.svg" "$keys"
    step "cartpole learns the same controller in every run, batched and eager" same_hash "$short" "$short" \
        "$short --eager"
    long reaches "cartpole learns to stand" "./build/cartpole --seed 2" "steps > 475"
    picture cartpole "$out/curve.svg"
}
ppo() {
    keys="RESULT ppo caught= solved= updates= steps= seconds= hash="
    short="./build/ppo --updates 2 --games 16 --steps 40 --width 16"
    example ppo sharing
    prints "ppo" "$short --svg $out/curve.svg" "$keys"
    picture ppo "$out/curve.svg"
    step "ppo learns the same on 1 and 2 threads, batched and eager" same_hash "$short --threads 1" \
        "$short --threads 2" "$short --eager"
    long reaches "ppo learns to catch" "./build/ppo --updates 12 --games 32 --threads 1" "caught > 1.5"
}
train() {
    keys="RESULT train score= best= by_chance= reached= updates= steps= seconds= processor= per_second= acting= learning="
    short="./build/train --updates 3 --environments 16 --steps 20"
    example train sharing
    prints "train" "$short --svg $out/curve.svg" "$keys environments= hash="
    picture train "$out/curve.svg"
    step "train learns the same on 1, 2 and 4 threads, batched and eager" same_hash "$short --memory 1" \
        "$short --memory 1 --threads 2" "$short --memory 1 --threads 4" "$short --memory 1 --eager"
    step "train goes on with what it saved" holds \
        "$short --save $out/train.safetensors >/dev/null && $short --updates 5 --load $out/train.safetensors" "updates == 5"
    long reaches "train learns to balance a pole" ./build/train "reached == 1"
}
forage() {
    keys="RESULT forage eaten= stung= eaten_by_chance= stung_by_chance= items_seen= updates= steps= seconds="
    short="./build/forage --updates 2 --fields 2 --width 8"
    example forage sharing
    prints "forage" "$short" "$keys per_second= hash="
    step "forage learns the same on 1, 2 and 4 threads, batched and eager" same_hash "$short" "$short --threads 2" \
        "$short --threads 4" "$short --eager"
    long reaches "forage learns to eat" "./build/forage --updates 26" "eaten > 2.5 * eaten_by_chance"
}
games() { # of PufferLib, unmodified
    if [ -z "${FOLD_OCEAN:-}" ]; then skip "games of PufferLib learn" "FOLD_OCEAN names no folder"; return; fi
    for each in examples/games/*.h; do
        name=$(basename "$each" .h)
        [ "$name" != puffer ] || continue
        game="-o build/train_$name -w -I $FOLD_OCEAN -I examples/games/raylib '-DENVIRONMENT=\"games/$name.h\"'"
        step "$name compiles" sh -c "$(linked sharing examples/train.c | sed "s#-o build/train #$game #")"
        short="./build/train_$name --updates 2 --environments 4 --steps 16 --width 16"
        step "$name is learned to the same bits on 1, 2 and 4 threads, batched and eager" same_hash "$short" \
            "$short --threads 2" "$short --threads 4" "$short --eager"
    done
    long reaches "memory is learned" ./build/train_memory "score > 0.99 && by_chance < 0.6"
    long reaches "pong is learned" ./build/train_pong "score > 14.99 && by_chance < -19"
}
real_data() {
    what="treelstm_sst, treelstm_sick, shift_reduce and transformer on real trees, mnist on real digits"
    if [ -z "${FOLD_DATA:-}" ]; then skip "$what" "FOLD_DATA is not set"; return; fi
    step "FOLD_DATA is a folder" test -d "$FOLD_DATA"
}
