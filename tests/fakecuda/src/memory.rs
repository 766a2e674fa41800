//! Device memory and page-locked host memory: what is there, and who uses it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, RwLock};

use crate::call::{Code, code};
use crate::clock::{Access, Clock, Ledger};
use crate::settings::SETTINGS;
use crate::violation;
use crate::world::Handle;

/// Device addresses count up from here and are never used twice. No host memory is there, so a
/// host that follows one faults.
const FIRST_DEVICE_ADDRESS: u64 = 0x2000_0000_0000;
/// What CUDA promises of an allocation; every other allocation is aligned to no more.
const ALIGNMENT: u64 = 256;
/// At least so much between two allocations.
const GAP: u64 = 65536;
/// Page-locking works on whole pages.
const PAGE: u64 = 4096;

pub type DeviceBytes = Arc<RwLock<Vec<u8>>>;

struct Allocation {
    size: u64,
    context: Handle,
    device: usize,
    bytes: DeviceBytes,
    ledger: Ledger,
}

struct Registration {
    size: u64,
    context: Handle,
    /// For every context, not only the one that registered it.
    portable: bool,
    ledger: Ledger,
}

/// `rows` rows of `width` bytes, the first at `address`, each `pitch` bytes after the one before.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    pub address: u64,
    pub pitch: u64,
    pub width: u64,
    pub rows: u64,
}

impl Rows {
    /// `bytes` bytes in one row.
    pub fn bytes(address: u64, bytes: u64) -> Rows {
        Rows {
            address,
            pitch: bytes,
            width: bytes,
            rows: 1,
        }
    }

    /// Some of the rows, at least one.
    pub fn part(&self, rows: Range<usize>) -> Rows {
        Rows {
            address: self.address + rows.start as u64 * self.pitch,
            rows: rows.len() as u64,
            ..*self
        }
    }

    /// The address beyond the last row.
    pub fn end(&self) -> u64 {
        self.address + (self.rows - 1) * self.pitch + self.width
    }
}

/// A place in device memory.
#[derive(Clone)]
pub struct Device {
    pub bytes: DeviceBytes,
    /// Bytes from the start of the allocation.
    pub offset: usize,
}

impl Device {
    /// The bytes of `rows`, which begin here, without the gaps.
    pub fn read(&self, rows: &Rows) -> Vec<u8> {
        let memory = self.bytes.read().unwrap();
        let mut bytes = Vec::with_capacity((rows.width * rows.rows) as usize);
        for row in 0..rows.rows {
            let start = self.offset + (row * rows.pitch) as usize;
            bytes.extend_from_slice(&memory[start..][..rows.width as usize]);
        }
        bytes
    }

    /// Stores `bytes` in `rows`, which begin here.
    pub fn write(&self, rows: &Rows, bytes: &[u8]) {
        let mut memory = self.bytes.write().unwrap();
        for (row, line) in bytes.chunks_exact(rows.width as usize).enumerate() {
            let start = self.offset + row * rows.pitch as usize;
            memory[start..][..line.len()].copy_from_slice(line);
        }
    }
}

#[derive(Default)]
pub struct Memory {
    device: BTreeMap<u64, Allocation>,
    host: BTreeMap<u64, Registration>,
    /// Bytes of address space in which something was, gaps included.
    handed_out: u64,
}

impl Memory {
    /// Bytes allocated on `device`.
    pub fn used(&self, device: usize) -> u64 {
        (self.device.values())
            .filter(|allocation| allocation.device == device)
            .map(|allocation| allocation.size)
            .sum()
    }

    /// Allocations and registrations that are there.
    pub fn counts(&self) -> (usize, usize) {
        (self.device.len(), self.host.len())
    }

    /// Allocates `size` bytes of noise.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no bytes, `OUT_OF_MEMORY` when the device has not so many left.
    pub fn allocate(&mut self, context: Handle, device: usize, size: u64) -> Result<u64, Code> {
        if size == 0 {
            return Err(code::INVALID_VALUE);
        }
        if self.used(device).saturating_add(size) > SETTINGS.memory {
            return Err(code::OUT_OF_MEMORY);
        }
        let beyond_all = FIRST_DEVICE_ADDRESS + self.handed_out + GAP;
        let base = beyond_all.next_multiple_of(2 * ALIGNMENT) + ALIGNMENT;
        self.handed_out = base + size - FIRST_DEVICE_ADDRESS;
        let allocation = Allocation {
            size,
            context,
            device,
            bytes: Arc::new(RwLock::new(noise(size as usize, base))),
            ledger: Ledger::default(),
        };
        self.device.insert(base, allocation);
        Ok(base)
    }

    pub fn free(&mut self, address: u64, host: &Clock) {
        let Some(allocation) = self.device.get(&address) else {
            violation!("{address:#x} is no device allocation, or it was freed");
        };
        if let Some(used) = allocation.ledger.in_flight(0, u64::MAX, host) {
            violation!(
                "device memory is freed, but nothing has shown yet that {} is done with it",
                used.call
            );
        }
        let gone = self.device.remove(&address).expect("it was there");
        // Whoever still holds it reads noise.
        let mut bytes = gone.bytes.write().unwrap();
        *bytes = noise(bytes.len(), !address);
    }

    /// # Errors
    /// When a page of it is registered already.
    pub fn register(
        &mut self,
        address: u64,
        size: u64,
        context: Handle,
        portable: bool,
    ) -> Result<(), Code> {
        if address == 0 || size == 0 {
            return Err(code::INVALID_VALUE);
        }
        let (from, to) = pages(address, size);
        let overlaps = |(base, other): (&u64, &Registration)| {
            let (other_from, other_to) = pages(*base, other.size);
            from < other_to && other_from < to
        };
        if self.host.iter().any(overlaps) {
            return Err(code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let registration = Registration {
            size,
            context,
            portable,
            ledger: Ledger::default(),
        };
        self.host.insert(address, registration);
        Ok(())
    }

    /// # Errors
    /// When no registration begins there.
    pub fn unregister(&mut self, address: u64, host: &Clock) -> Result<(), Code> {
        let registration = (self.host.get(&address)).ok_or(code::HOST_MEMORY_NOT_REGISTERED)?;
        if let Some(used) = registration.ledger.in_flight(0, u64::MAX, host) {
            violation!(
                "host memory is unregistered, but nothing has shown yet that {} is done with it",
                used.call
            );
        }
        self.host.remove(&address);
        Ok(())
    }

    /// What belonged to a context goes with it.
    pub fn forget_context(&mut self, context: Handle) {
        self.device.retain(|_, a| a.context != context);
        self.host.retain(|_, r| r.context != context);
    }

    /// The device memory of `rows`, for `context`. Ends the process unless all of it is in one
    /// allocation.
    pub fn device(&self, rows: &Rows, context: Handle, what: &str) -> Device {
        let found = self.device.range(..=rows.address).next_back();
        let Some((base, allocation)) = found.filter(|(b, a)| rows.address < **b + a.size) else {
            violation!(
                "{what} at {:#x} is in no device allocation, or it was freed",
                rows.address
            );
        };
        let end = base + allocation.size;
        if rows.end() > end {
            violation!(
                "{what} reaches {} bytes beyond its device allocation of {} bytes ({rows:?})",
                rows.end() - end,
                allocation.size
            );
        }
        if allocation.context != context {
            violation!("{what} is in device memory of another context");
        }
        Device {
            bytes: allocation.bytes.clone(),
            offset: (rows.address - base) as usize,
        }
    }

    /// Ends the process unless all of `rows` is in one piece of host memory that is page-locked
    /// for `context`.
    pub fn check_host(&self, rows: &Rows, context: Handle, what: &str) {
        let found = self.host.range(..=rows.address).next_back();
        let Some((base, registration)) = found.filter(|(b, r)| rows.address < **b + r.size) else {
            violation!(
                "{what} at {:#x} is no page-locked host memory",
                rows.address
            );
        };
        let end = base + registration.size;
        if rows.end() > end {
            violation!(
                "{what} reaches {} bytes beyond its page-locked {} bytes ({rows:?})",
                rows.end() - end,
                registration.size
            );
        }
        if !registration.portable && registration.context != context {
            violation!("{what} was page-locked by another context, and not portable");
        }
    }

    /// Whether an operation on this host memory may still be under way, as far as the host knows.
    pub fn host_in_flight(&self, rows: &Rows, host: &Clock) -> bool {
        let found = self.host.range(..=rows.address).next_back();
        found.is_some_and(|(_, registration)| {
            let ledger = &registration.ledger;
            ledger.in_flight(rows.address, rows.end(), host).is_some()
        })
    }

    /// Notes what an operation uses. Ends the process when another one may use it at the same
    /// time and one of the two writes.
    pub fn note(&mut self, access: Access, clock: &Clock, host: &Clock) {
        let device = self.device.range_mut(..=access.from).next_back();
        let in_device = device.filter(|(base, a)| access.from < **base + a.size);
        let ledger = match in_device {
            Some((_, allocation)) => &mut allocation.ledger,
            None => match self.host.range_mut(..=access.from).next_back() {
                Some((_, registration)) => &mut registration.ledger,
                None => violation!("{:#x} is no memory of the driver", access.from),
            },
        };
        if let Some(other) = ledger.conflict(&access, clock) {
            let verb = |write| if write { "writes" } else { "reads" };
            violation!(
                "{} memory that {} on another stream {}, and neither waits for the other",
                verb(access.write),
                other.call,
                verb(other.write)
            );
        }
        ledger.note(access, host);
    }
}

fn pages(address: u64, size: u64) -> (u64, u64) {
    let end = address + size;
    (address / PAGE * PAGE, end.next_multiple_of(PAGE))
}

/// Bytes that no test expects, others for every seed.
pub fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = vec![0; size];
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_never_used_twice_and_memory_starts_as_noise() {
        let mut memory = Memory::default();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let address = memory.allocate(1, 0, 1000).unwrap();
            assert_eq!(address % ALIGNMENT, 0);
            assert!(!seen.contains(&address));
            seen.push(address);
            let held = memory.device(&Rows::bytes(address, 1000), 1, "test");
            let distinct =
                |bytes: &[u8]| bytes.iter().collect::<std::collections::HashSet<_>>().len();
            assert!(distinct(&held.bytes.read().unwrap()) > 100);
            memory.free(address, &Clock::default());
        }
        assert_eq!(memory.used(0), 0);
    }

    #[test]
    fn a_device_has_so_much_memory_and_no_more() {
        let mut memory = Memory::default();
        let most = SETTINGS.memory;
        assert_eq!(memory.allocate(1, 0, most + 1), Err(code::OUT_OF_MEMORY));
        assert_eq!(memory.allocate(1, 0, 0), Err(code::INVALID_VALUE));
        memory.allocate(1, 0, 1 << 20).unwrap();
        assert_eq!(memory.allocate(1, 0, most), Err(code::OUT_OF_MEMORY));
    }

    #[test]
    fn pages_are_registered_once() {
        let mut memory = Memory::default();
        memory.register(0x10000, 0x1800, 1, true).unwrap();
        let again = memory.register(0x11900, 0x100, 1, true);
        assert_eq!(again, Err(code::HOST_MEMORY_ALREADY_REGISTERED));
        memory.register(0x12000, 0x1000, 1, true).unwrap();
        let middle = memory.unregister(0x10800, &Clock::default());
        assert_eq!(middle, Err(code::HOST_MEMORY_NOT_REGISTERED));
        memory.unregister(0x10000, &Clock::default()).unwrap();
    }
}
