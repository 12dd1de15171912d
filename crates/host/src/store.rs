//! Where the data of flows to this node goes.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flowloom_core::{Bytes, FlowId};

use crate::sys;

/// Takes the data of flows to this node. An error ends that flow, and its source is told the reason; the node goes on with the others.
pub trait Store: Send {
    /// Takes bytes of a flow. Each byte comes once, in any order.
    ///
    /// # Errors
    /// If they cannot be kept.
    fn write(&mut self, flow: FlowId, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Completes a flow of `size` bytes, all of which have come. The flow is acknowledged after this returns, so the data must be safe then. Returns the
    /// data if it is kept in memory.
    ///
    /// # Errors
    /// If the data is not safe.
    fn finish(&mut self, flow: FlowId, size: u64) -> io::Result<Vec<u8>>;
    /// Forgets a flow that will not be complete.
    fn discard(&mut self, flow: FlowId);
}

/// Keeps flows in memory.
#[derive(Debug)]
pub struct InMemory {
    flows: HashMap<FlowId, Pieces>,
    /// The bytes of all flows that are not complete, and how many there may be.
    held: u64,
    limit: Bytes,
}

/// A flow's bytes from its start to the first hole, and those after holes by offset. So memory is used only for bytes that have arrived, whatever offset a
/// datagram has.
#[derive(Default, Debug)]
struct Pieces {
    front: Vec<u8>,
    ahead: BTreeMap<u64, Vec<u8>>,
    held: u64,
}

impl InMemory {
    /// Unfinished flows together may hold `limit` bytes.
    pub fn new(limit: Bytes) -> InMemory {
        InMemory { flows: HashMap::new(), held: 0, limit }
    }
}

impl Store for InMemory {
    fn write(&mut self, flow: FlowId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let more = bytes.len() as u64;
        if self.held + more > self.limit.get() {
            let what = format!("its destination holds {} of unfinished flows, which is its limit", self.limit);
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, what));
        }
        self.held += more;
        let pieces = self.flows.entry(flow).or_default();
        pieces.held += more;
        if offset != pieces.front.len() as u64 {
            pieces.ahead.insert(offset, bytes.to_vec());
            return Ok(());
        }
        pieces.front.extend_from_slice(bytes);
        while let Some(next) = pieces.ahead.first_entry()
            && *next.key() == pieces.front.len() as u64
        {
            pieces.front.extend(next.remove());
        }
        Ok(())
    }

    fn finish(&mut self, flow: FlowId, _: u64) -> io::Result<Vec<u8>> {
        let pieces = self.flows.remove(&flow).unwrap_or_default();
        self.held -= pieces.held;
        Ok(pieces.front)
    }

    fn discard(&mut self, flow: FlowId) {
        let pieces = self.flows.remove(&flow).unwrap_or_default();
        self.held -= pieces.held;
    }
}

/// Keeps nothing: for measurements.
#[derive(Clone, Copy, Debug)]
pub struct Discard;

impl Store for Discard {
    fn write(&mut self, _: FlowId, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn finish(&mut self, _: FlowId, _: u64) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn discard(&mut self, _: FlowId) {}
}

/// Writes flows into files of a directory. A flow's file has its id as its name, and appears when all of it is on the disk.
#[derive(Debug)]
pub struct InFiles {
    directory: PathBuf,
    /// Some of the unfinished files.
    open: HashMap<FlowId, Part>,
    /// Files that could not be written when they were closed to make room.
    failed: HashMap<FlowId, io::Error>,
}

/// An unfinished file, and bytes that are yet to be written to it.
#[derive(Debug)]
struct Part {
    file: File,
    /// Where the bytes belong.
    offset: u64,
    bytes: Vec<u8>,
}

/// How many bytes in a row are written at once. A call for each packet would cost as much as receiving it.
const WRITE_BYTES: usize = 1 << 16;

impl Part {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let follows = offset == self.offset + self.bytes.len() as u64;
        if !follows || self.bytes.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
            self.offset = offset;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.bytes, self.offset)?;
        self.bytes.clear();
        Ok(())
    }
}

/// How many files are open at once. A process may usually have 1024.
const OPEN_MAX: usize = 256;

/// What the names of unfinished files end with.
const PART: &str = ".part";

impl InFiles {
    /// Creates the directory if there is none, and removes what an earlier process left unfinished.
    ///
    /// # Errors
    /// If this fails.
    pub fn new(directory: &Path) -> io::Result<InFiles> {
        std::fs::create_dir_all(directory)?;
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.strip_suffix(PART).is_some_and(|flow| flow.parse::<u32>().is_ok()) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(InFiles { directory: directory.to_owned(), open: HashMap::new(), failed: HashMap::new() })
    }

    fn part(&self, flow: FlowId) -> PathBuf {
        self.directory.join(format!("{}{PART}", flow.0))
    }

    /// The file of an unfinished flow.
    fn file(&mut self, flow: FlowId) -> io::Result<&mut Part> {
        if let Some(error) = self.failed.remove(&flow) {
            return Err(error);
        }
        if !self.open.contains_key(&flow) {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.part(flow))?;
            if self.open.len() == OPEN_MAX
                && let Some(any) = self.open.keys().next().copied()
                && let Some(mut closed) = self.open.remove(&any)
                && let Err(error) = closed.flush()
            {
                self.failed.insert(any, error);
            }
            self.open.insert(flow, Part { file, offset: 0, bytes: Vec::new() });
        }
        Ok(self.open.get_mut(&flow).expect("it is open"))
    }

    /// Gives the file its name, and makes sure that it outlives a crash. A file of that name, from an earlier run, is kept.
    fn publish(&self, flow: FlowId, file: &File) -> io::Result<()> {
        file.sync_all()?;
        let part = self.part(flow);
        let mut name = self.directory.join(flow.0.to_string());
        let mut copies = 1;
        while let Err(error) = give_name(&part, &name, &WAYS) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            copies += 1;
            name = self.directory.join(format!("{}-{copies}", flow.0));
        }
        File::open(&self.directory)?.sync_all()
    }
}

/// A way to give a file another name that no file has yet.
type Way = fn(&Path, &Path) -> io::Result<()>;

/// No way is one on all file systems: NFS cannot refuse to replace a file when it renames another, and FAT has no links.
const WAYS: [Way; 2] = [sys::rename_new, link_and_remove];

fn link_and_remove(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// Gives a file its name in the first way that the file system has. The error is that of the last way, unless the name is taken.
fn give_name(from: &Path, to: &Path, ways: &[Way]) -> io::Result<()> {
    let mut outcome = Err(io::ErrorKind::Unsupported.into());
    for way in ways {
        outcome = way(from, to);
        match &outcome {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {}
            _ => break,
        }
    }
    outcome
}

impl Store for InFiles {
    fn write(&mut self, flow: FlowId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(flow)?.write(offset, bytes)
    }

    fn finish(&mut self, flow: FlowId, size: u64) -> io::Result<Vec<u8>> {
        let part = self.file(flow)?;
        part.flush()?;
        part.file.set_len(size)?;
        let part = self.open.remove(&flow).expect("it was opened");
        self.publish(flow, &part.file)?;
        Ok(Vec::new())
    }

    fn discard(&mut self, flow: FlowId) {
        self.open.remove(&flow);
        self.failed.remove(&flow);
        // It may not exist yet, and the next process removes what is left.
        let _ = std::fs::remove_file(self.part(flow));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A directory that is removed at the end of the test.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = std::env::temp_dir().join(format!("flowloom-store-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Directory(path)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> =
                std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn pieces_in_any_order_make_the_flow(
            data in prop::collection::vec(any::<u8>(), 0..300),
            piece in 1_usize..20,
            order in prop::collection::vec(any::<u32>(), 300),
        ) {
            let mut pieces: Vec<(usize, &[u8])> = data.chunks(piece).enumerate().map(|(n, bytes)| (n * piece, bytes)).collect();
            pieces.sort_by_key(|(offset, _)| order[*offset]);
            let directory = Directory::new("order");
            let (mut memory, mut files) = (InMemory::new(Bytes::new(300)), InFiles::new(&directory.0).unwrap());
            for (offset, bytes) in &pieces {
                memory.write(FlowId(1), *offset as u64, bytes).unwrap();
                files.write(FlowId(1), *offset as u64, bytes).unwrap();
            }
            prop_assert!(directory.names().iter().all(|name| name == "1.part"), "an unfinished flow has no file of its name");
            prop_assert_eq!(memory.finish(FlowId(1), data.len() as u64).unwrap(), data.clone());
            prop_assert_eq!(memory.held, 0);
            files.finish(FlowId(1), data.len() as u64).unwrap();
            prop_assert_eq!(directory.names(), ["1"]);
            prop_assert_eq!(std::fs::read(directory.0.join("1")).unwrap(), data);
        }
    }

    #[test]
    fn memory_has_a_limit_and_comes_back() {
        let mut memory = InMemory::new(Bytes::new(10));
        memory.write(FlowId(1), 0, b"12345").unwrap();
        memory.write(FlowId(2), 1 << 60, b"1234").unwrap();
        let error = memory.write(FlowId(2), 0, b"12").unwrap_err();
        assert!(error.to_string().contains("10B"), "{error}");
        memory.discard(FlowId(2));
        memory.write(FlowId(3), 0, b"12345").unwrap();
        assert_eq!(memory.finish(FlowId(1), 5).unwrap(), b"12345");
        assert_eq!(memory.held, 5);
    }

    #[test]
    fn files_are_not_replaced_and_leftovers_are_removed() {
        let directory = Directory::new("names");
        for name in ["7", "8.part", "notes.part", "9"] {
            std::fs::write(directory.0.join(name), "old").unwrap();
        }
        let mut files = InFiles::new(&directory.0).unwrap();
        assert_eq!(directory.names(), ["7", "9", "notes.part"]);
        files.write(FlowId(7), 0, b"new").unwrap();
        files.finish(FlowId(7), 3).unwrap();
        files.write(FlowId(8), 0, b"never finished").unwrap();
        files.discard(FlowId(8));
        assert_eq!(directory.names(), ["7", "7-2", "9", "notes.part"]);
        assert_eq!(std::fs::read(directory.0.join("7-2")).unwrap(), b"new");
    }

    #[test]
    fn a_name_is_given_in_whichever_way_the_file_system_has() {
        let directory = Directory::new("ways");
        let place = |name: &str| directory.0.join(name);
        let lacking: Way = |_, _| Err(io::Error::from_raw_os_error(libc::EPERM));
        for (number, ways) in
            [vec![WAYS[0]], vec![WAYS[1]], vec![lacking, WAYS[1]], vec![lacking, WAYS[0]]].into_iter().enumerate()
        {
            let (free, taken) = (place(&format!("{number}")), place(&format!("{number}-taken")));
            std::fs::write(place("part"), "new").unwrap();
            std::fs::write(&taken, "old").unwrap();
            assert_eq!(give_name(&place("part"), &taken, &ways).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            give_name(&place("part"), &free, &ways).unwrap();
            assert_eq!((std::fs::read(free).unwrap(), std::fs::read(taken).unwrap()), (b"new".to_vec(), b"old".to_vec()));
            assert!(!place("part").exists());
        }
        let error = give_name(&place("0"), &place("other"), &[lacking, lacking]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn more_flows_than_open_files() {
        let directory = Directory::new("many");
        let mut files = InFiles::new(&directory.0).unwrap();
        let flows = 2 * OPEN_MAX as u32;
        for half in 0..2 {
            (0..flows).for_each(|flow| files.write(FlowId(flow), half * 4, &flow.to_be_bytes()).unwrap());
        }
        assert_eq!(files.open.len(), OPEN_MAX);
        for flow in 0..flows {
            files.finish(FlowId(flow), 8).unwrap();
            assert_eq!(std::fs::read(directory.0.join(flow.to_string())).unwrap(), [flow.to_be_bytes(); 2].concat());
        }
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let directory = Directory::new("full-disk");
        let mut files = InFiles::new(&directory.0).unwrap();
        let part = || Part { file: File::create("/dev/full").unwrap(), offset: 0, bytes: vec![0; WRITE_BYTES] };
        files.open.insert(FlowId(0), part());
        let error = files.write(FlowId(0), WRITE_BYTES as u64, b"1").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        // Also where the file is closed to make room: its own flow hears of it.
        (0..OPEN_MAX as u32).for_each(|flow| drop(files.open.insert(FlowId(flow), part())));
        files.write(FlowId(9999), 0, b"1").unwrap();
        let closed = (0..OPEN_MAX as u32).map(FlowId).find(|flow| !files.open.contains_key(flow)).unwrap();
        let error = files.finish(closed, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
