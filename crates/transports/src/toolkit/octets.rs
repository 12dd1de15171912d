//! Fields of headers on a real network: big endian.

/// Writes `fields` to the front of `out` and returns the number of bytes written.
pub fn put_u32(out: &mut [u8], fields: &[u32]) -> usize {
    for (place, field) in out.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_be_bytes());
    }
    fields.len() * 4
}

/// Reads fields from the front of `bytes`; `None` if there are too few bytes.
pub fn take_u32<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut fields = [0; N];
    for (index, field) in fields.iter_mut().enumerate() {
        *field = u32::from_be_bytes(bytes.get(index * 4..index * 4 + 4)?.try_into().ok()?);
    }
    Some(fields)
}
