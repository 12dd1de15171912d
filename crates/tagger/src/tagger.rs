//! The programs in the kernel: attached to a device, found again by another process, and detached without a trace.

use std::fs;
use std::path::PathBuf;

use aya::EbpfLoader;
use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray};
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType, TestRun, TestRunOptions};

use crate::device::{Device, enter_number};
use crate::programs::{self, missing, program};
use crate::rules::{Rules, WORDS};
use crate::status::{BINS, Bin, COUNTERS, Status, last_of_bin};
use crate::{Error, Result, bpffs, failed};

/// The compiled programs; their source is `bpf/pias.bpf.c`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/pias.bpf.o");

const TAG: &str = "flowloom_tag";
const SWEEP: &str = "flowloom_sweep";
const MAPS: [&str; 5] = ["rules_map", "flows", "counters", "sizes", "attachment"];
const LINK: &str = "link";
/// The words of the map `attachment`.
const ATTACHMENT: usize = 8;
/// Two words hold the name of a device, which has at most 15 bytes.
const NAME_BYTES: usize = 16;

/// How a tagger is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Entries of the table of flows.
    pub table_size: u32,
    /// Makes bursts of TCP single packets, so that no packet has the class of an earlier one.
    pub exact: bool,
    /// Uses a filter of the qdisc `clsact` also where the kernel has TCX.
    pub clsact: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { table_size: 65_536, exact: false, clsact: false }
    }
}

/// A tagger that is attached to a device. It stays attached when this value is dropped.
pub struct Tagger {
    folder: PathBuf,
    device: String,
}

/// What must be undone when the tagger is detached.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Attachment {
    name: [u8; NAME_BYTES],
    clsact: bool,
    /// Whether the qdisc is ours.
    qdisc: bool,
    /// What the device had before the exact mode; 0 without it.
    gso_segments_max: u64,
    /// The digest of the object with the programs; 0 in versions that did not note it.
    object: u64,
}

impl Attachment {
    fn words(self) -> [u64; ATTACHMENT] {
        let (first, second) = self.name.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        [word(first), word(second), self.clsact.into(), self.qdisc.into(), self.gso_segments_max, self.object, 0, 0]
    }

    fn from_words(words: &[u64; ATTACHMENT]) -> Attachment {
        let mut name = [0; NAME_BYTES];
        name[..8].copy_from_slice(&words[0].to_le_bytes());
        name[8..].copy_from_slice(&words[1].to_le_bytes());
        Attachment { name, clsact: words[2] != 0, qdisc: words[3] != 0, gso_segments_max: words[4], object: words[5] }
    }

    fn device(&self) -> String {
        String::from_utf8_lossy(&self.name).trim_end_matches('\0').into()
    }
}

impl Tagger {
    /// Attaches a tagger to a device of this network namespace.
    ///
    /// # Errors
    ///
    /// There is no such device, it has a tagger, or the system refuses (it must be run as root). Then nothing is left behind.
    pub fn attach(device: &str, rules: &Rules, options: Options) -> Result<Tagger> {
        Tagger::attach_object(device, rules, options, OBJECT)
    }

    fn attach_object(device: &str, rules: &Rules, options: Options, object: &[u8]) -> Result<Tagger> {
        let mut device = Device::find(device)?;
        bpffs::mount()?;
        let tagger = Tagger { folder: bpffs::folder_of(device.index)?, device: device.name.clone() };
        if tagger.is_attached(&device)? {
            tagger.check_version()?;
            let name = &device.name;
            return Err(Error::Input(format!("{name} has a tagger; change it with `set`, or detach it first")));
        }
        if tagger.folder.exists() {
            // It was killed while it was attached; or a device that is gone had the same number in a namespace with the same number.
            let theirs = tagger.attachment().is_ok_and(|attachment| attachment.device() != tagger.device);
            if theirs {
                bpffs::remove(&tagger.folder)?;
            } else {
                tagger.undo()?;
            }
            device = Device::find(&tagger.device)?;
        }
        bpffs::make(&tagger.folder)?;
        match tagger.attach_programs(&device, rules, options, object) {
            Ok(()) => Ok(tagger),
            Err(error) => {
                // The first error is what counts.
                let _ = tagger.undo();
                Err(error)
            }
        }
    }

    fn attach_programs(&self, device: &Device, rules: &Rules, options: Options, object: &[u8]) -> Result<()> {
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("flows", options.table_size);
        let mut programs = programs::load(loader, object, &[TAG, SWEEP])?;
        for name in MAPS {
            let map = programs.map(name).ok_or_else(|| missing(name))?;
            map.pin(self.folder.join(name)).map_err(failed("pin a map"))?;
        }
        self.set(rules)?;
        let mut attachment = Attachment { object: digest(object), ..Attachment::default() };
        for (to, from) in attachment.name.iter_mut().zip(device.name.bytes()) {
            *to = from;
        }
        self.set_attachment(attachment)?;
        program(&mut programs, SWEEP)?.pin(self.folder.join(SWEEP)).map_err(failed("pin a program"))?;
        if options.exact {
            // First what it was, so that it can be restored whatever happens.
            attachment.gso_segments_max = device.gso_segments_max;
            self.set_attachment(attachment)?;
            device.set_gso_segments_max(1)?;
        }
        let tag = program(&mut programs, TAG)?;
        let tcx = TcAttachOptions::TcxOrder(LinkOrder::default());
        let attached =
            if options.clsact { None } else { tag.attach_with_options(&device.name, TcAttachType::Egress, tcx).ok() };
        if let Some(id) = attached {
            let link = tag.take_link(id).map_err(failed("attach the tagger"))?;
            let link: FdLink = link.try_into().map_err(failed("attach the tagger"))?;
            link.pin(self.folder.join(LINK)).map_err(failed("pin the tagger"))?;
            return Ok(());
        }
        // Kernels before 6.6 have no TCX.
        attachment.clsact = true;
        self.set_attachment(attachment)?;
        attachment.qdisc = device.add_clsact()?;
        self.set_attachment(attachment)?;
        programs::attach_filter(tag, device, programs::FIRST, None)
    }

    /// Finds the tagger of a device.
    ///
    /// # Errors
    ///
    /// The device has none, or its programs are those of another version: they may have other rules, and other places for what they count.
    pub fn open(device: &str) -> Result<Tagger> {
        let device = Device::find(device)?;
        let tagger = Tagger { folder: bpffs::folder_of(device.index)?, device: device.name.clone() };
        if !tagger.is_attached(&device)? {
            return Err(none(&device.name));
        }
        tagger.check_version()?;
        Ok(tagger)
    }

    /// Checks that the programs are those that this version attaches.
    fn check_version(&self) -> Result<()> {
        if self.attachment()?.object == digest(OBJECT) {
            return Ok(());
        }
        let name = &self.device;
        Err(Error::Input(format!(
            "{name} has a tagger of another version of this program; detach it, and attach it again, or restart this program if it runs since before an update"
        )))
    }

    /// Whether the programs in the folder are those that the device runs.
    fn is_attached(&self, device: &Device) -> Result<bool> {
        if !self.folder.exists() {
            return Ok(false);
        }
        let Ok(link) = PinnedLink::from_pin(self.folder.join(LINK)) else {
            return Ok(device.filter(TAG)?.is_some());
        };
        let ours = FdLink::from(link).info().map_err(failed("find the tagger"))?.program_id();
        let (_, programs) =
            SchedClassifier::query_tcx(&device.name, TcAttachType::Egress).map_err(failed("find the device's programs"))?;
        Ok(programs.iter().any(|program| program.id() == ours))
    }

    /// The rules that apply now.
    ///
    /// # Errors
    ///
    /// The system refuses, here and in all other methods.
    pub fn rules(&self) -> Result<Rules> {
        let map: Array<_, [u64; WORDS]> = self.array("rules_map")?;
        Ok(Rules::from_words(&map.get(&0, 0).map_err(failed("read the rules"))?))
    }

    /// Changes the rules, for packets that leave from now on.
    pub fn set(&self, rules: &Rules) -> Result<()> {
        let mut map: Array<_, [u64; WORDS]> = self.array("rules_map")?;
        map.set(0, rules.words(), 0).map_err(failed("set the rules"))
    }

    /// The rules and the counts since the tagger was attached. Messages of flows that were silent for a second count as ended.
    pub fn status(&self) -> Result<Status> {
        self.sweep()?;
        let mut status = Status::new(&self.device, &self.rules()?);
        let attachment = self.attachment()?;
        status.attached = if attachment.clsact { "clsact" } else { "tcx" };
        status.exact = attachment.gso_segments_max != 0;
        let flows: HashMap<_, [u8; 40], [u8; 48]> = self.map("flows")?.try_into().map_err(failed("read the flows"))?;
        status.known = flows.keys().filter(std::result::Result::is_ok).count() as u64;
        status.table_size = self.data("flows")?.info().map(|info| info.max_entries()).map_err(failed("read the flows"))?;
        status.count(&programs::sum::<COUNTERS>(self.data("counters")?)?);
        let sizes: PerCpuArray<_, u64> = self.map("sizes")?.try_into().map_err(failed("read the sizes"))?;
        for bin in 0..BINS {
            let count = sizes.get(&bin, 0).map_err(failed("read the sizes"))?.iter().sum();
            if count > 0 {
                status.sizes.push(Bin { above: bin.checked_sub(1).map_or(0, last_of_bin), bytes: last_of_bin(bin), count });
            }
        }
        Ok(status)
    }

    /// Detaches the tagger of a device, and restores what it changed. This also cleans up after an `attach` that was killed.
    ///
    /// # Errors
    ///
    /// The device has none, or the system refuses.
    pub fn detach(device: &str) -> Result<()> {
        let device = Device::find(device)?;
        let tagger = Tagger { folder: bpffs::folder_of(device.index)?, device: device.name.clone() };
        if !tagger.folder.exists() {
            return Err(none(&device.name));
        }
        tagger.undo()
    }

    /// Undoes `attach`, as far as it came.
    fn undo(&self) -> Result<()> {
        let attachment = self.attachment().unwrap_or_default();
        if let Ok(link) = PinnedLink::from_pin(self.folder.join(LINK)) {
            link.unpin().map_err(failed("detach the tagger"))?;
        }
        // The device may be gone; then there is nothing to restore, and another one may have its name.
        if let Ok(device) = Device::find(&self.device)
            && bpffs::folder_of(device.index)? == self.folder
        {
            if attachment.clsact {
                programs::detach_filter(&device, TAG)?;
            }
            if attachment.qdisc {
                device.remove_clsact()?;
            }
            if attachment.gso_segments_max != 0 {
                device.set_gso_segments_max(attachment.gso_segments_max)?;
            }
        }
        bpffs::remove(&self.folder)
    }

    /// Ends the messages of flows that are silent.
    fn sweep(&self) -> Result<()> {
        let program = SchedClassifier::from_pin(self.folder.join(SWEEP)).map_err(failed("find the tagger's programs"))?;
        let packet = [0; 64];
        program
            .test_run(TestRunOptions { data_in: Some(&packet), ..TestRunOptions::default() })
            .map(drop)
            .map_err(failed("sweep"))
    }

    fn data(&self, name: &str) -> Result<MapData> {
        MapData::from_pin(self.folder.join(name)).map_err(failed(&format!("open the tagger's map {name}")))
    }

    fn map(&self, name: &str) -> Result<Map> {
        Map::from_map_data(self.data(name)?).map_err(failed(&format!("open the tagger's map {name}")))
    }

    fn array<V: aya::Pod>(&self, name: &str) -> Result<Array<MapData, V>> {
        programs::array(self.data(name)?)
    }

    fn attachment(&self) -> Result<Attachment> {
        let map: Array<_, [u64; ATTACHMENT]> = self.array("attachment")?;
        Ok(Attachment::from_words(&map.get(&0, 0).map_err(failed("read how the tagger is attached"))?))
    }

    fn set_attachment(&self, attachment: Attachment) -> Result<()> {
        let mut map: Array<_, [u64; ATTACHMENT]> = self.array("attachment")?;
        map.set(0, attachment.words(), 0).map_err(failed("note how the tagger is attached"))
    }
}

/// The 64-bit FNV-1a of an object.
fn digest(object: &[u8]) -> u64 {
    object.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

fn none(device: &str) -> Error {
    if let Some(why) = bpffs::hidden() {
        return Error::Input(format!("no tagger of {device} is seen here: {why}"));
    }
    Error::Input(format!("{device} has no tagger; `attach {device}` attaches one (only root sees taggers)"))
}

/// The devices that have taggers, in all network namespaces.
///
/// # Errors
///
/// The folder of the taggers cannot be read.
pub fn devices() -> Result<Vec<String>> {
    Ok(taggers()?.into_iter().map(|tagger| tagger.device).collect())
}

/// Detaches the taggers of all devices, in all network namespaces; returns the devices.
///
/// # Errors
///
/// The system refuses.
pub fn detach_all() -> Result<Vec<String>> {
    let home = fs::File::open("/proc/thread-self/ns/net").map_err(failed("read the network namespace"))?;
    let mut names = Vec::new();
    for tagger in taggers()? {
        if let Some(number) = bpffs::namespace_of(&tagger.folder) {
            enter_number(number, &home)?;
        }
        tagger.undo()?;
        names.push(tagger.device);
    }
    Ok(names)
}

fn taggers() -> Result<Vec<Tagger>> {
    let folder = bpffs::folder();
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed("read the folder of the taggers"))? {
        let folder = entry.map_err(failed("read the folder of the taggers"))?.path();
        let mut tagger = Tagger { folder, device: String::new() };
        tagger.device = tagger.attachment().map(|attachment| attachment.device()).unwrap_or_default();
        found.push(tagger);
    }
    found.sort_by(|a, b| a.device.cmp(&b.device));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Namespace, altered, skip};

    #[test]
    fn the_attachment_is_read_as_it_was_written() {
        let mut attachment =
            Attachment { clsact: true, gso_segments_max: 65_535, object: digest(OBJECT), ..Attachment::default() };
        attachment.name[..12].copy_from_slice(b"enp129s0f0.7");
        assert_eq!(Attachment::from_words(&attachment.words()), attachment);
        assert_eq!(attachment.device(), "enp129s0f0.7");
    }

    #[test]
    fn a_tagger_of_another_version_is_named_and_gives_way() {
        // In the other version, the second of silence that ends a message is a nanosecond longer. Compilers write "more than" a number in different ways.
        let other = altered(OBJECT, 999_999_999..=1_000_000_001);
        let rules = Rules::new(vec![flowloom_core::Bytes::new(20_000)]);
        let _namespace = match Namespace::enter("tagger", Tagger::detach) {
            Ok(namespace) => namespace,
            Err(error) => return skip(&error),
        };
        if let Err(error) = Tagger::attach_object("lo", &rules, Options::default(), &other) {
            return skip(&error);
        }
        for refused in [Tagger::open("lo"), Tagger::attach("lo", &rules, Options::default())] {
            let why = refused.err().expect("the tagger is another one").to_string();
            assert!(why.contains("lo has a tagger of another version") && why.contains("detach it"), "{why}");
        }
        Tagger::detach("lo").unwrap();
        Tagger::attach("lo", &rules, Options::default()).unwrap();
        assert_eq!(Tagger::open("lo").unwrap().rules().unwrap(), rules);
    }
}
