/* All programs, as one object: `cargo xtask bpf` compiles it. */
#include "connect.c"
#include "live.c"
#include "packet.c"
#include "release.c"
#include "running.c"
#include "sock_ops.c"
