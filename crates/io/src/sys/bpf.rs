//! What the loader of eBPF programs does not do (bpf(2)): an iterator over a map, and which programs a control group has.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Commands and kinds of links of linux/bpf.h.
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const PROG_QUERY: libc::c_int = 16;
const LINK_CREATE: libc::c_int = 28;
const ITER_CREATE: libc::c_int = 33;
const TRACE_ITER: u32 = 28;
/// Programs of one kind that a control group may have.
const MOST: usize = 64;

/// The kinds of programs that control groups have, with their numbers (`enum bpf_attach_type`).
pub const HOOKS: [(&str, u32); 11] = [
    ("ingress", 0),
    ("egress", 1),
    ("sock_ops", 3),
    ("connect4", 10),
    ("connect6", 11),
    ("post_bind4", 12),
    ("post_bind6", 13),
    ("sendmsg4", 14),
    ("sendmsg6", 15),
    ("sock_create", 2),
    ("sock_release", 34),
];

/// `BPF_LINK_CREATE` as far as iterators need it.
#[repr(C)]
struct Link {
    program: u32,
    target: u32,
    kind: u32,
    flags: u32,
    info: u64,
    info_len: u32,
    pad: u32,
}

/// `BPF_ITER_CREATE`.
#[repr(C)]
struct Iterator {
    link: u32,
    flags: u32,
}

/// `BPF_PROG_QUERY` as far as the kernels that we know write it.
#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    kind: u32,
    flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    pad: u32,
    more: [u64; 4],
}

fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes `size_of::<T>()` bytes of the attributes, a structure of plain numbers; what they point to is
    // the caller's and outlives the call.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = libc::c_int::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made it for us, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd().unsigned_abs()
}

/// What an iterator program writes of each element of a map, when it is read. Attached to nothing: gone with the file.
pub fn elements(program: impl AsFd, map: impl AsFd) -> io::Result<File> {
    let map = number(map);
    let mut link = Link {
        program: number(program),
        target: 0,
        kind: TRACE_ITER,
        flags: 0,
        info: (&raw const map).expose_provenance() as u64,
        info_len: size_of::<u32>() as u32,
        pad: 0,
    };
    let link = owned(bpf(LINK_CREATE, &mut link)?)?;
    let mut iterator = Iterator { link: number(&link), flags: 0 };
    owned(bpf(ITER_CREATE, &mut iterator)?).map(File::from)
}

/// `struct bpf_prog_info` up to the numbers that are read.
#[repr(C)]
#[derive(Default)]
struct About {
    before: [u64; 24],
    run_ns: u64,
    runs: u64,
}

/// `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct Info {
    fd: u32,
    len: u32,
    info: u64,
}

/// For how long a program has run in all, in nanoseconds, and how often: while that is counted.
pub fn ran(program: impl AsFd) -> io::Result<(u64, u64)> {
    // Zeros: nothing else is asked for.
    let mut about = About::default();
    let len = size_of::<About>() as u32;
    let mut info = Info { fd: number(program), len, info: (&raw mut about).expose_provenance() as u64 };
    bpf(OBJ_GET_INFO_BY_FD, &mut info)?;
    Ok((about.run_ns, about.runs))
}

/// The numbers of the programs of a kind that are attached to a control group, in the order in which they run.
pub fn attached(group: impl AsFd, kind: u32) -> io::Result<Vec<u32>> {
    let mut programs = [0u32; MOST];
    let mut query = Query {
        target: number(group),
        kind,
        programs: programs.as_mut_ptr().expose_provenance() as u64,
        count: MOST as u32,
        ..Query::default()
    };
    bpf(PROG_QUERY, &mut query)?;
    Ok(programs[..MOST.min(query.count as usize)].to_vec())
}
