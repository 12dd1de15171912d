//! The secret that all nodes of a cluster share, and the keys that are derived from it.

use std::fmt;
use std::io;
use std::path::Path;

use aes_gcm::aes::cipher::KeyInit;
use aes_gcm::{Aes128Gcm, Key as CipherKey};
use flowloom_core::NodeId;
use hkdf::Hkdf;
use sha2::Sha256;

const KEY_BYTES: usize = 32;

/// The secret of a cluster. Whoever has it can act as any node of the cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The key of a cluster that has none: everybody knows it, so it protects from accidents only, such as a datagram of an earlier run.
    pub const PUBLIC: Key = Key([0; KEY_BYTES]);

    /// A random key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> io::Result<Key> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Key(bytes))
    }

    /// Reads a key: 64 hexadecimal digits, with white space around them.
    ///
    /// # Errors
    /// If the file cannot be read, or is something else.
    pub fn read(path: &Path) -> io::Result<Key> {
        let text = std::fs::read_to_string(path)?;
        let invalid = || {
            let what = format!("{}: a key is {} hexadecimal digits; --new-key makes one", path.display(), 2 * KEY_BYTES);
            io::Error::new(io::ErrorKind::InvalidInput, what)
        };
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * KEY_BYTES {
            return Err(invalid());
        }
        let mut bytes = [0; KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |of: u8| char::from(of).to_digit(16).ok_or_else(invalid);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Key(bytes))
    }

    /// Writes the key into a new file, which only its owner can read.
    ///
    /// # Errors
    /// If there is such a file, or it cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        writeln!(file, "{digits}")?;
        file.sync_all()
    }

    /// A number by which nodes see that they have different keys. It tells nothing about the key.
    pub(super) fn id(&self) -> u32 {
        u32::from_be_bytes(self.derive(&[b"id"]))
    }

    /// The cipher of greetings.
    pub(super) fn greetings(&self) -> Aes128Gcm {
        cipher(self.derive(&[b"greetings"]))
    }

    /// The cipher and the id of the packets from one process to another.
    pub(super) fn direction(&self, from: Process, to: Process) -> (Aes128Gcm, u32) {
        let derived: [u8; 20] = self.derive(&[b"session", &from.bytes(), &to.bytes()]);
        let (secret, id) = derived.split_at(16);
        (cipher(secret.try_into().expect("16 bytes")), u32::from_be_bytes(id.try_into().expect("4 bytes")))
    }

    /// `N` bytes that follow from the key and this purpose, and tell nothing about other purposes' (RFC 5869).
    fn derive<const N: usize>(&self, purpose: &[&[u8]]) -> [u8; N] {
        let mut derived = [0; N];
        let purpose = purpose.concat();
        Hkdf::<Sha256>::new(Some(b"flowloom-node 1"), &self.0).expand(&purpose, &mut derived).expect("a few bytes");
        derived
    }
}

fn cipher(secret: [u8; 16]) -> Aes128Gcm {
    Aes128Gcm::new(&CipherKey::<Aes128Gcm>::from(secret))
}

/// Does not show the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:08x})", self.id())
    }
}

/// A process of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Process {
    pub(super) node: NodeId,
    pub(super) incarnation: u64,
}

impl Process {
    fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.node.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("flowloom-key-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_never_replaced() {
        let (path, key) = (file("round"), Key::random().unwrap());
        key.write(&path).unwrap();
        let read = Key::read(&path);
        let again = key.write(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), key);
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_ne!(key, Key::random().unwrap());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (n, text) in ["", "0123", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65)].into_iter().enumerate() {
            let path = file(&n.to_string());
            std::fs::write(&path, text).unwrap();
            let error = Key::read(&path).unwrap_err();
            std::fs::remove_file(&path).unwrap();
            assert!(error.to_string().contains("64 hexadecimal digits"), "{error}");
        }
    }

    #[test]
    fn each_purpose_has_a_key_of_its_own() {
        let key = Key::PUBLIC;
        let process = |node, incarnation| Process { node: NodeId(node), incarnation };
        let (a, b) = (process(0, 7), process(1, 8));
        let ids = [key.direction(a, b).1, key.direction(b, a).1, key.direction(process(0, 9), b).1, key.id()];
        let distinct: std::collections::HashSet<u32> = ids.into_iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_ne!(Key([1; KEY_BYTES]).direction(a, b).1, ids[0]);
        assert_eq!(format!("{key:?}").len(), "Key(00000000)".len(), "the key itself is not shown");
    }
}
