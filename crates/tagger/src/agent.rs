//! A tagger's agent: it lets a controller on another host read a tagger's status and set its thresholds.
//!
//! A session is lines of text over TCP. The agent begins with `flowloom-tag 1 NONCE`. Then each line of the controller is answered by one
//! of the agent, and each has the form `SEAL JSON`. The seal of line number n (from 0, counted in both directions) is the HMAC-SHA-256, in
//! hexadecimal digits, of `NONCE n JSON` under the shared key. The nonce is new in each session, so nothing can be forged or replayed
//! without the key; but everybody on the way can read it. Without a key, the seal is `-`, and the agent listens on this host only.
//!
//! Requests are `{"do": "status"}` and `{"do": "set", "thresholds_bytes": [20000, …]}`. The answer to both is the [`Status`](crate::Status), or
//! `{"error": "why"}`.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{Error, Result, Rules, Tagger, failed};

const SESSIONS_MAX: usize = 16;
const LINE_MAX: u64 = 4096;
/// How long a session may be silent, and how long a line may take to leave.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const KEY_BYTES_MIN: usize = 16;
const NONCE_BYTES: usize = 16;

/// A key that the agents and their controller share.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl Key {
    /// Reads a key from a file; white space around it does not count.
    ///
    /// # Errors
    ///
    /// The file cannot be read, others than its owner may read it, or the key is short.
    pub fn read(path: &Path) -> Result<Key> {
        let shown = path.display();
        let wrong = |why: String| Error::Input(format!("--key-file {shown}: {why}"));
        let mode = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(wrong(format!("others may read it; `chmod 600 {shown}` keeps it to its owner")));
        }
        let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?.trim_ascii().to_vec();
        if bytes.len() < KEY_BYTES_MIN {
            return Err(wrong(format!(
                "the key has {} bytes; it needs {KEY_BYTES_MIN}, such as those of `openssl rand -hex 32`",
                bytes.len()
            )));
        }
        Ok(Key(bytes))
    }

    fn mac(&self, nonce: &str, number: u64, text: &str) -> Hmac<Sha256> {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0)
            .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        mac.update(format!("{nonce} {number} {text}").as_bytes());
        mac
    }
}

/// Listens for controllers.
///
/// # Errors
///
/// The address is in use, or it can be reached from other hosts and there is no key.
pub fn listen(address: SocketAddr, key: Option<&Key>) -> Result<TcpListener> {
    if key.is_none() && !address.ip().is_loopback() {
        return Err(Error::Input(format!("--listen {address}: other hosts can reach it, so give --key-file, too")));
    }
    TcpListener::bind(address).map_err(failed(&format!("listen on {address}")))
}

/// Answers controllers about the tagger of a device, until the program is ended.
///
/// # Errors
///
/// The listener fails.
pub fn serve(device: &str, listener: &TcpListener, key: Option<&Key>) -> Result<()> {
    let sessions = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, peer) = listener.accept().map_err(failed("accept a controller"))?;
        if sessions.fetch_add(1, Ordering::Relaxed) >= SESSIONS_MAX {
            sessions.fetch_sub(1, Ordering::Relaxed);
            eprintln!("flowloom-tag: {peer} is refused: there are {SESSIONS_MAX} sessions");
            continue;
        }
        let (device, key, sessions) = (device.to_owned(), key.cloned(), Arc::clone(&sessions));
        thread::spawn(move || {
            if let Err(error) = session(&device, &stream, key.as_ref()) {
                eprintln!("flowloom-tag: the session with {peer} ended: {error}");
            }
            sessions.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn session(device: &str, stream: &TcpStream, key: Option<&Key>) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut nonce = [0; NONCE_BYTES];
    fs::File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    let nonce = hexadecimal(&nonce);
    let mut to = stream;
    writeln!(to, "flowloom-tag 1 {nonce}")?;
    let mut from = BufReader::new(stream);
    for number in (0..).step_by(2) {
        let mut line = String::new();
        if from.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        let Some((seal, text)) = line.strip_suffix('\n').and_then(|line| line.split_once(' ')) else {
            return refuse("it sent something else than a seal and JSON");
        };
        if let Some(key) = key
            && bytes_of(seal).is_none_or(|seal| key.mac(&nonce, number, text).verify_slice(&seal).is_err())
        {
            return refuse("it has another key, or none");
        }
        let answer = answer(device, text).to_string();
        let seal = key.map_or("-".into(), |key| hexadecimal(&key.mac(&nonce, number + 1, &answer).finalize().into_bytes()));
        writeln!(to, "{seal} {answer}")?;
    }
    Ok(())
}

/// The answer to a request.
fn answer(device: &str, request: &str) -> Value {
    let tried = || -> Result<Value> {
        let request: Value = serde_json::from_str(request).map_err(failed("read the request"))?;
        let tagger = Tagger::open(device)?;
        match request["do"].as_str() {
            Some("status") => {}
            Some("set") => {
                let given: Option<Vec<u64>> =
                    request["thresholds_bytes"].as_array().and_then(|list| list.iter().map(Value::as_u64).collect());
                let thresholds = given.ok_or_else(|| Error::Input("thresholds_bytes is no list of sizes".into()))?;
                tagger.set(&Rules { thresholds: Rules::check_thresholds(&thresholds)?, ..tagger.rules()? })?;
            }
            _ => return Err(Error::Input("the request is neither \"status\" nor \"set\"".into())),
        }
        serde_json::to_value(tagger.status()?).map_err(failed("write the status"))
    };
    tried().unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_the_hmac_of_the_nonce_the_number_and_the_text() {
        // RFC 4231, test case 2, has the key "Jefe" and the text "what do ya want for nothing?". Its first two words are the nonce and, were
        // it a number, the number; so this checks the HMAC itself.
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hexadecimal(&mac.finalize().into_bytes()), known);
        let key = Key(b"Jefe".to_vec());
        let mut same = <Hmac<Sha256> as KeyInit>::new_from_slice(b"Jefe").unwrap();
        same.update(b"ab 4 {}");
        assert_eq!(key.mac("ab", 4, "{}").finalize().into_bytes(), same.finalize().into_bytes());
    }

    #[test]
    fn digits_are_read_back() {
        assert_eq!(bytes_of(&hexadecimal(&[0, 15, 255])), Some(vec![0, 15, 255]));
        assert_eq!([bytes_of("0"), bytes_of("-"), bytes_of("0g"), bytes_of("€0")], [const { None }; 4]);
    }

    #[test]
    fn other_hosts_are_heard_only_with_a_key() {
        let address = "0.0.0.0:0".parse().unwrap();
        assert!(matches!(listen(address, None), Err(Error::Input(_))));
        assert!(listen(address, Some(&Key(vec![1; 16]))).is_ok());
        assert!(listen("127.0.0.1:0".parse().unwrap(), None).is_ok());
    }
}
