//! The folder that is served. The kernel holds what is opened beneath it (openat2(2), RESOLVE_BENEATH): neither `..` nor
//! a link leads out, whatever is changed meanwhile. Hidden files are not served, nor what a link names by such a way.
//!
//! Some services have no openat2(2): systemd refuses it to all that may make no set-user-ID files (DynamicUser, as the packaged unit has
//! it), since it cannot look into its arguments. For them paths are opened name by name, and no link is followed.

use super::compressed::Compressor;
use super::file::Opened;
use super::kind;
use super::listing::{FolderEntry, MOST, Pages};
use crate::exit::Usage;
use headstart_core::wire::target::Target;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How often a path is resolved again that was changed at that moment (openat2(2), EAGAIN).
const TRIES: u32 = 8;

/// A folder that is served.
#[derive(Debug)]
pub struct Site {
    root: OwnedFd,
    /// Whether openat2(2) opens what is beneath it, and so follows links that stay there.
    follows_links: bool,
    /// Files that are being sent, by device and tag: clients that fetch the same share a descriptor.
    open: Mutex<HashMap<(u64, String), Weak<File>>>,
    /// What compresses text that is asked for, if that is wanted.
    compressor: Option<Compressor>,
    /// Seconds for which clients may use a file without asking again.
    max_age: Option<u32>,
    /// Pages of folders that are being sent.
    pages: Pages,
}

/// What is at a path.
#[derive(Debug)]
pub enum Found {
    /// A file.
    File(Opened),
    /// A folder without an index, and whether it holds more than is listed.
    Folder(Vec<FolderEntry>, bool),
    /// A folder, named without the slash at its end.
    Elsewhere,
    /// Nothing, or nothing that is served.
    Nothing,
    /// It may not be read.
    Forbidden,
    /// It may be there, but the host has no means to open it now.
    Busy,
}

/// Shared descriptors that are remembered before those of ended answers are looked for.
const LOOKED_THROUGH: usize = 256;

impl Site {
    /// The folder `path`.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty());
        let root = root.map_err(|why| Usage::unreadable(path, std::io::Error::from(why)))?;
        let (open, compressor) = (Mutex::default(), Some(Compressor::default()));
        let mut site = Self { root, follows_links: true, open, compressor, max_age: None, pages: Pages::default() };
        match site.beneath(Path::new(".")) {
            Ok(_) => Ok(site),
            Err(Errno::NOSYS | Errno::PERM) => {
                site.follows_links = false;
                site.beneath(Path::new(".")).map_err(|why| Usage::unreadable(path, std::io::Error::from(why)))?;
                Ok(site)
            }
            Err(why) => Err(Usage::unreadable(path, std::io::Error::from(why)).into()),
        }
    }

    /// The same, but text is sent as it is.
    pub fn without_compression(self) -> Self {
        Self { compressor: None, ..self }
    }

    /// The same, but clients may use files for `max_age` seconds without asking again; as they see fit without it.
    pub fn with_max_age(self, max_age: Option<u32>) -> Self {
        Self { max_age, ..self }
    }

    /// Seconds for which clients may use a file without asking again, if that was said.
    pub fn max_age(&self) -> Option<u32> {
        self.max_age
    }

    /// Pages of folders that are being sent.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// What compresses text that is asked for.
    pub fn compressor(&self) -> Option<&Compressor> {
        self.compressor.as_ref()
    }

    /// Whether links are followed that stay in the folder; else they are not served.
    pub fn follows_links(&self) -> bool {
        self.follows_links
    }

    /// What is at `target`.
    pub fn find(&self, target: &Target) -> Found {
        let names = target.names.iter().map(|name| std::ffi::OsStr::from_bytes(name));
        let path: PathBuf = std::iter::once(std::ffi::OsStr::new(".")).chain(names).collect();
        match self.look(&path, target) {
            Ok(found) => found,
            // EXDEV: it would lead out; ELOOP: links without end.
            Err(Errno::ACCESS | Errno::PERM) => Found::Forbidden,
            // It may be there.
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::AGAIN) => Found::Busy,
            Err(_) => Found::Nothing,
        }
    }

    fn look(&self, path: &Path, target: &Target) -> Result<Found, Errno> {
        let opened = self.beneath(path)?;
        if self.is_hidden(&opened) {
            return Ok(Found::Nothing);
        }
        let stat = rustix::fs::fstat(&opened)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if target.is_folder => Ok(Found::Nothing),
            FileType::RegularFile => {
                let name = target.names.last().map_or(&[][..], |name| name);
                Ok(Found::File(self.shared(Opened::of(opened, &stat, kind::of(name)), &stat)))
            }
            FileType::Directory if !target.is_folder => Ok(Found::Elsewhere),
            FileType::Directory => self.folder(path, &opened),
            _ => Ok(Found::Nothing),
        }
    }

    fn folder(&self, path: &Path, folder: &OwnedFd) -> Result<Found, Errno> {
        let index = match self.beneath(&path.join("index.html")) {
            // One that is there and cannot be read is no reason to show what it covers.
            Err(why) if !matches!(why, Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP) => return Err(why),
            index => index.ok().filter(|index| !self.is_hidden(index)),
        };
        if let Some(index) = index {
            let stat = rustix::fs::fstat(&index)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                return Ok(Found::File(self.shared(Opened::of(index, &stat, kind::of(b"index.html")), &stat)));
            }
        }
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name.starts_with(b".") {
                continue;
            }
            if entries.len() == MOST {
                return Ok(Found::Folder(entries, true));
            }
            // As it would be served: links that lead out are not there.
            let Ok(opened) = self.beneath(&path.join(std::ffi::OsStr::from_bytes(name))) else { continue };
            let Ok(stat) = rustix::fs::fstat(&opened) else { continue };
            let length = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => u64::try_from(stat.st_size).ok(),
                FileType::Directory => None,
                _ => continue,
            };
            if !self.is_hidden(&opened) {
                entries.push(FolderEntry { name: name.to_vec(), length });
            }
        }
        Ok(Found::Folder(entries, false))
    }

    /// The same, by a descriptor that is there already if it is.
    fn shared(&self, mut opened: Opened, stat: &rustix::fs::Stat) -> Opened {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Twice as many as were in use: looked through seldom enough to cost nothing.
        if open.len() >= LOOKED_THROUGH && open.len() == open.capacity() {
            open.retain(|_, file| file.strong_count() > 0);
        }
        let there = open.entry((stat.st_dev, opened.tag.clone())).or_default();
        match there.upgrade() {
            Some(file) => opened.file = file,
            None => *there = Arc::downgrade(&opened.file),
        }
        opened
    }

    fn beneath(&self, path: &Path) -> Result<OwnedFd, Errno> {
        // A pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        if !self.follows_links {
            return self.by_names(path, flags);
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    /// The same name by name, each of which must be one of the folder before and no link.
    fn by_names(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let open = |folder: &OwnedFd, name: &std::ffi::OsStr, flags: OFlags| {
            rustix::fs::openat(folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        };
        let mut names = path.components().filter(|name| *name != Component::CurDir).peekable();
        let mut folder: Option<OwnedFd> = None;
        while let Some(name) = names.next() {
            let Component::Normal(name) = name else { return Err(Errno::XDEV) };
            let last = names.peek().is_none();
            let flags = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY };
            let opened = open(folder.as_ref().unwrap_or(&self.root), name, flags)?;
            if last {
                return Ok(opened);
            }
            folder = Some(opened);
        }
        open(&self.root, std::ffi::OsStr::new("."), flags)
    }

    /// Whether a link led past a name with a dot: where the file is, seen from the root, as the kernel says.
    fn is_hidden(&self, opened: &OwnedFd) -> bool {
        let (Ok(root), Ok(place)) = (place(&self.root), place(opened)) else { return true };
        let Ok(inside) = place.strip_prefix(&root) else { return true };
        inside.iter().any(|name| name.as_bytes().starts_with(b"."))
    }
}

fn place(of: &impl AsFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", of.as_fd().as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::wire::target;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A folder that is gone with the test.
    pub struct Scratch(pub PathBuf);

    impl Scratch {
        pub fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("headstart-site-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn find(site: &Site, path: &str) -> Found {
        site.find(&target::parse(path.as_bytes()).unwrap())
    }

    #[test]
    fn files_folders_and_indexes_are_found() {
        let scratch = Scratch::new("found");
        fs::create_dir_all(scratch.0.join("empty")).unwrap();
        fs::create_dir_all(scratch.0.join("pages")).unwrap();
        fs::write(scratch.0.join("pages/index.html"), "<p>").unwrap();
        fs::write(scratch.0.join("a file.txt"), "12345").unwrap();
        let site = Site::open(&scratch.0).unwrap();
        let Found::File(file) = find(&site, "/a%20file.txt") else { panic!() };
        assert_eq!((file.length, &*file.kind), (5, "text/plain; charset=utf-8"));
        assert!(file.tag.starts_with('"') && file.tag.ends_with('"'));
        assert!(matches!(find(&site, "/pages/"), Found::File(f) if f.kind.starts_with("text/html")));
        assert!(matches!(find(&site, "/pages"), Found::Elsewhere));
        assert!(matches!(find(&site, "/empty/"), Found::Folder(all, false) if all.is_empty()));
        assert!(matches!(find(&site, "/a%20file.txt/"), Found::Nothing));
        assert!(matches!(find(&site, "/none"), Found::Nothing));
        let Found::Folder(all, false) = find(&site, "/") else { panic!() };
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn links_lead_where_they_may_and_nowhere_else() {
        let scratch = Scratch::new("links");
        let (inside, outside) = (scratch.0.join("in"), scratch.0.join("out"));
        fs::create_dir_all(inside.join("deep/.git")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("secret"), "s").unwrap();
        fs::write(inside.join("file"), "f").unwrap();
        fs::write(inside.join("deep/.git/config"), "c").unwrap();
        for (link, to) in [
            ("good", "file"),
            ("relative", "../out/secret"),
            ("absolute", outside.join("secret").to_str().unwrap()),
            ("folder", "../out"),
            ("hidden", "deep/.git/config"),
            ("process", "/proc/self/environ"),
            ("loop", "loop"),
        ] {
            symlink(to, inside.join(link)).unwrap();
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, inside.join("pipe"), Mode::RUSR).unwrap();
        let site = Site::open(&inside).unwrap();
        assert!(matches!(find(&site, "/good"), Found::File(f) if f.length == 1));
        for path in ["/relative", "/absolute", "/folder/secret", "/hidden", "/process", "/loop", "/pipe"] {
            assert!(matches!(find(&site, path), Found::Nothing), "{path}");
        }
        let Found::Folder(mut all, false) = find(&site, "/") else { panic!() };
        all.sort();
        let names: Vec<_> = all.iter().map(|entry| String::from_utf8_lossy(&entry.name)).collect();
        assert_eq!(names, ["deep", "file", "good"]);
    }

    #[test]
    fn without_openat2_files_are_found_and_no_link_is_followed() {
        let scratch = Scratch::new("names");
        let (inside, outside) = (scratch.0.join("in"), scratch.0.join("out"));
        fs::create_dir_all(inside.join("deep/er")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("secret"), "s").unwrap();
        fs::write(inside.join("deep/er/file"), "12").unwrap();
        for (link, to) in
            [("good", "deep/er/file"), ("folder", "../out"), ("near", "deep/er"), ("process", "/proc/self/environ")]
        {
            symlink(to, inside.join(link)).unwrap();
        }
        let site = Site { follows_links: false, ..Site::open(&inside).unwrap() };
        assert!(!site.follows_links());
        assert!(matches!(find(&site, "/deep/er/file"), Found::File(f) if f.length == 2));
        assert!(matches!(find(&site, "/deep"), Found::Elsewhere));
        for path in
            ["/good", "/folder/secret", "/near/file", "/process", "/deep/er/file/", "/none/file", "/deep/er/none"]
        {
            assert!(matches!(find(&site, path), Found::Nothing), "{path}");
        }
        let outside = |path: &str| site.by_names(Path::new(path), OFlags::RDONLY).unwrap_err();
        assert_eq!(outside("./../out/secret"), Errno::XDEV);
        assert_eq!(outside("/etc/passwd"), Errno::XDEV);
        let Found::Folder(all, false) = find(&site, "/") else { panic!() };
        assert_eq!(all.iter().map(|entry| entry.name.as_slice()).collect::<Vec<_>>(), [b"deep"]);
    }

    #[test]
    fn clients_that_fetch_the_same_share_a_descriptor_until_it_is_replaced() {
        let scratch = Scratch::new("shared");
        fs::write(scratch.0.join("f"), "old").unwrap();
        let site = Site::open(&scratch.0).unwrap();
        let file = || {
            let Found::File(file) = find(&site, "/f") else { panic!() };
            file.file
        };
        let (one, other) = (file(), file());
        assert!(Arc::ptr_eq(&one, &other));
        fs::write(scratch.0.join("new"), "new").unwrap();
        fs::rename(scratch.0.join("new"), scratch.0.join("f")).unwrap();
        let replaced = file();
        assert!(!Arc::ptr_eq(&one, &replaced));
        let mut text = [0; 3];
        std::os::unix::fs::FileExt::read_exact_at(&*one, &mut text, 0).unwrap();
        assert_eq!(&text, b"old", "what has begun is sent to its end");
    }

    #[test]
    fn the_memory_of_descriptors_does_not_grow_with_the_files_that_were_sent() {
        let scratch = Scratch::new("forgotten");
        let site = Site::open(&scratch.0).unwrap();
        for n in 0..20 * LOOKED_THROUGH {
            let path = scratch.0.join(format!("f{n}"));
            fs::write(&path, "x".repeat(n % 7)).unwrap();
            assert!(matches!(find(&site, &format!("/f{n}")), Found::File(_)));
        }
        assert!(site.open.lock().unwrap().len() <= 4 * LOOKED_THROUGH);
    }

    #[test]
    fn a_folder_that_is_none_is_named() {
        let why = Site::open(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(format!("{why:#}").contains("/nowhere/at/all"), "{why:#}");
        assert!(Site::open(Path::new("/proc/self/stat")).is_err());
    }
}
