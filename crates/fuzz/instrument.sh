#!/bin/sh
# Cargo calls this in place of rustc for crates of this workspace (RUSTC_WORKSPACE_WRAPPER), with rustc
# and its arguments. Libraries, and the fuzzer itself, get what libFuzzer sees coverage by; what others
# wrote is built as it always is, and so is shared with every other build.
set -eu
case " $* " in
*" --crate-type lib "* | *" --crate-name fuzz "*)
    exec "$@" -Cpasses=sancov-module \
        -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$@" ;;
esac
