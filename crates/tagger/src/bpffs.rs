//! The file system of BPF objects, in which taggers stay attached when the program ends.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use crate::{Error, Result, failed};

const ROOT: &str = "/sys/fs/bpf";
/// The magic number of the file system (linux/magic.h).
const MAGIC: u64 = 0xcafe_4a11;

/// The folder of all taggers.
pub fn folder() -> PathBuf {
    Path::new(ROOT).join("flowloom")
}

/// The folder of the tagger of a device in this network namespace. Names of devices are no names here, since they may have dots.
pub fn folder_of(index: u32) -> Result<PathBuf> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(failed("read the network namespace"))?;
    Ok(folder().join(format!("{}-{index}", namespace.ino())))
}

/// The number of the network namespace of a tagger's device, from the tagger's folder.
pub fn namespace_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.split_once('-')?.0.parse().ok()
}

/// Mounts the file system, if it is not.
pub fn mount() -> Result<()> {
    let mounted = rustix::fs::statfs(ROOT).map_err(failed("find the file system of BPF objects in /sys/fs/bpf"))?;
    if mounted.f_type as u64 == MAGIC {
        return Ok(());
    }
    // `ip netns exec` gives a process a mount namespace of its own. What is mounted there vanishes with the process, and so would the tagger.
    let parent = format!("/proc/{}/ns/mnt", std::os::unix::process::parent_id());
    let namespaces = ["/proc/self/ns/mnt", parent.as_str()].map(|path| fs::read_link(path).ok());
    if namespaces[0] != namespaces[1] {
        let right = "use --netns NAME instead of `ip netns exec NAME`";
        return Err(Error::Input(format!("/sys/fs/bpf has no BPF file system in this mount namespace; {right}")));
    }
    rustix::mount::mount("bpf", ROOT, "bpf", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, c"mode=0700")
        .map_err(failed("mount the file system of BPF objects in /sys/fs/bpf"))
}

/// Makes a folder, which must belong to this user: in a file system that everybody may write to, somebody else could have made it.
pub fn make(folder: &Path) -> Result<()> {
    let failed = failed("make a folder for the tagger in /sys/fs/bpf");
    // Of two that attach a tagger at once, only one makes the folder.
    fs::create_dir_all(self::folder()).and_then(|()| fs::create_dir(folder)).map_err(failed)?;
    for made in folder.ancestors().take(2) {
        let owner = fs::metadata(made).map_err(crate::failed("read the tagger's folder"))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Error::System(format!("{} belongs to user {owner}; remove it first", made.display())));
        }
    }
    Ok(())
}

/// Removes a tagger's folder, and that of all taggers if it was the last one.
pub fn remove(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(failed("read the tagger's folder"))? {
        let path = entry.map_err(failed("read the tagger's folder"))?.path();
        fs::remove_file(&path).map_err(failed(&format!("remove {}", path.display())))?;
    }
    fs::remove_dir(folder).map_err(failed(&format!("remove {}", folder.display())))?;
    if let Some(above) = folder.parent() {
        // Other taggers may be in it.
        let _ = fs::remove_dir(above);
    }
    Ok(())
}
