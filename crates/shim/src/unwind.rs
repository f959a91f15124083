//! The unwinder, fetched when a panic needs it, which is never if all is well.
//!
//! A panic that is stopped at the edge is unwound by libgcc_s. Most programs do without that library; were ours linked with it,
//! every process of a run would have to load both, which takes longer than everything else that loading ours does. So the
//! functions of it that Rust's runtime calls are defined here: each finds the true one at its first call, by dlopen(3), and goes
//! on there as if it had been called itself (no frame of ours is left on the stack, which it would see). Nothing of them is
//! exported: other libraries of the program have the true ones. Where a machine has no such functions here, the library is
//! linked as usual.
//!
//! `__tls_get_addr` is found in the same way, in the C library: to name it would be to need the GNU C library's loader, and
//! programs of another C library, which load us where one of that library starts them, have none.
//!
//! It is the same library that pthread_cancel(3) loads, so that a cancellation that passes through us meets one unwinder only.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// What Rust's runtime calls (library/unwind of its source), and what its panics and backtraces are made of.
const NAMES: [&CStr; 17] = [
    c"_Unwind_Backtrace",
    c"_Unwind_DeleteException",
    c"_Unwind_FindEnclosingFunction",
    c"_Unwind_ForcedUnwind",
    c"_Unwind_GetCFA",
    c"_Unwind_GetDataRelBase",
    c"_Unwind_GetGR",
    c"_Unwind_GetIP",
    c"_Unwind_GetIPInfo",
    c"_Unwind_GetLanguageSpecificData",
    c"_Unwind_GetRegionStart",
    c"_Unwind_GetTextRelBase",
    c"_Unwind_RaiseException",
    c"_Unwind_Resume",
    c"_Unwind_SetGR",
    c"_Unwind_SetIP",
    c"__tls_get_addr",
];

/// Where the last of them is.
const THREADS: usize = NAMES.len() - 1;

/// The true ones, in that order, as far as they have been found.
static FOUND: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

/// Finds number `n`; ends the process where there is none, as a panic without an unwinder must.
extern "C" fn find(n: usize) -> *mut c_void {
    let (Some(name), Some(found)) = (NAMES.get(n), FOUND.get(n)) else { std::process::abort() };
    let library = if n == THREADS {
        libc::RTLD_DEFAULT
    } else {
        // SAFETY: the name is a C string; the library's constructors are those of the C compiler's runtime.
        unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW) }
    };
    // RTLD_DEFAULT is null in the GNU C library.
    if n != THREADS && library.is_null() {
        std::process::abort();
    }
    // SAFETY: RTLD_DEFAULT or a handle from dlopen, which is never closed, and a C string.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    if function.is_null() {
        std::process::abort();
    }
    found.store(function, Ordering::Relaxed);
    function
}

// Each function: on to the true one, with the caller's arguments in their registers and its return address on the stack. To
// find it, the registers of three arguments are kept (none of these functions has more, or any that is not an integer), which with
// the return address aligns the stack as calls want it (System V ABI, AMD64, section 3.2.2).
std::arch::global_asm!(
    ".macro headstart_unwinder name, number",
    ".hidden \\name",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".cfi_startproc",
    "mov r11, qword ptr [rip + {found} + 8 * \\number]",
    "test r11, r11",
    "jz 1f",
    "jmp r11",
    "1:",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "mov edi, \\number",
    "call {find}",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "jmp rax",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    ".pushsection .text.headstart_unwinder, \"ax\", @progbits",
    ".p2align 4",
    "headstart_unwinder _Unwind_Backtrace, 0",
    "headstart_unwinder _Unwind_DeleteException, 1",
    "headstart_unwinder _Unwind_FindEnclosingFunction, 2",
    "headstart_unwinder _Unwind_ForcedUnwind, 3",
    "headstart_unwinder _Unwind_GetCFA, 4",
    "headstart_unwinder _Unwind_GetDataRelBase, 5",
    "headstart_unwinder _Unwind_GetGR, 6",
    "headstart_unwinder _Unwind_GetIP, 7",
    "headstart_unwinder _Unwind_GetIPInfo, 8",
    "headstart_unwinder _Unwind_GetLanguageSpecificData, 9",
    "headstart_unwinder _Unwind_GetRegionStart, 10",
    "headstart_unwinder _Unwind_GetTextRelBase, 11",
    "headstart_unwinder _Unwind_RaiseException, 12",
    "headstart_unwinder _Unwind_Resume, 13",
    "headstart_unwinder _Unwind_SetGR, 14",
    "headstart_unwinder _Unwind_SetIP, 15",
    "headstart_unwinder __tls_get_addr, 16",
    ".popsection",
    ".purgem headstart_unwinder",
    found = sym FOUND,
    find = sym find,
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    struct Dropped<'a>(&'a std::cell::Cell<bool>);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    /// In a function of its own, from which the panic goes on when it has run what it had to.
    #[inline(never)]
    fn fail(dropped: &std::cell::Cell<bool>) -> u32 {
        let _on_its_way = Dropped(dropped);
        let nothing: Option<u32> = std::hint::black_box(None);
        nothing.unwrap()
    }

    #[test]
    fn a_panic_is_stopped_and_runs_what_is_on_its_way() {
        let dropped = std::cell::Cell::new(false);
        let caught = catch_unwind(std::panic::AssertUnwindSafe(|| std::hint::black_box(fail(&dropped)) + 1));
        assert!(caught.is_err() && dropped.get());
        let used = NAMES.iter().zip(&FOUND).filter(|(_, found)| !found.load(Ordering::Relaxed).is_null());
        let used: Vec<_> = used.map(|(name, _)| name.to_str().unwrap()).collect();
        assert!(used.contains(&"_Unwind_RaiseException") && used.contains(&"_Unwind_Resume"), "{used:?}");
    }

    #[test]
    fn a_backtrace_has_more_than_one_frame() {
        assert!(std::backtrace::Backtrace::force_capture().to_string().lines().count() > 3);
    }
}
