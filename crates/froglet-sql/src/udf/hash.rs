//! PostgreSQL's hash of bytes: Bob Jenkins' lookup3 (2006), read little-endian. Clients take advisory
//! locks by it.

const SEED: u32 = 0x9e37_79b9;
const EXTRA: u32 = 3_923_095;

/// The hash of some bytes.
pub fn hash_bytes(bytes: &[u8]) -> u32 {
    let start = SEED.wrapping_add(bytes.len() as u32).wrapping_add(EXTRA);
    let mut state = [start; 3];
    let chunks = bytes.chunks_exact(12);
    let rest = chunks.remainder();
    for chunk in chunks {
        add(&mut state, chunk, 0);
        mix(&mut state);
    }
    // The lowest byte of the last word is the length's.
    let low = rest.len().min(8);
    add(&mut state, &rest[..low], 0);
    for (at, byte) in rest[low..].iter().enumerate() {
        state[2] = state[2].wrapping_add(u32::from(*byte) << (8 * (at + 1)));
    }
    last(&mut state);
    state[2]
}

fn add(state: &mut [u32; 3], bytes: &[u8], from: usize) {
    for (at, byte) in bytes.iter().enumerate() {
        let at = from + at;
        state[at / 4] = state[at / 4].wrapping_add(u32::from(*byte) << (8 * (at % 4)));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, by: u32| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(by);
        *z = z.wrapping_add(*y);
    };
    step(&mut a, &mut b, &mut c, 4);
    step(&mut b, &mut c, &mut a, 6);
    step(&mut c, &mut a, &mut b, 8);
    step(&mut a, &mut b, &mut c, 16);
    step(&mut b, &mut c, &mut a, 19);
    step(&mut c, &mut a, &mut b, 4);
    *state = [a, b, c];
}

fn last(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    let step = |x: &mut u32, y: u32, by: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(by));
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    *state = [a, b, c];
}
