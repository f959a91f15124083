//! How long the peer takes to answer: from the latest data of the program to the first byte of what comes next. Beside the round trip of a
//! request, which its acknowledgement ends, this has what the peer's program does.

use super::{Entry, Sources, mean, ms};

pub(super) const ENTRY: Entry = Entry {
    name: "answer_ms",
    unit: "ms",
    what: "The mean time from the last byte of a request to the first byte of its answer (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| mean(&flow.kernel_stats.as_ref()?.answers),
};

pub(super) const LONGEST: Entry = Entry {
    name: "longest_answer_ms",
    unit: "ms",
    what: "The longest time from the last byte of a request to the first byte of its answer (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| {
        let answers = &flow.kernel_stats.as_ref()?.answers;
        (answers.count > 0).then(|| ms(answers.longest))
    },
};
