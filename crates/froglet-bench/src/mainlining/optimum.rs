//! The fewest moves that leave no gap, for figure 12.
//!
//! ```text
//!   t rows, s to a block:   t / s blocks ■■■■■■■■   one block ■■■·····   the rest ········
//!                                                    first t % s
//! ```
//!
//! "Mainlining Databases" (VLDB 2021), section 4.3: a choice of the full blocks and of the partial one costs one
//! move for each gap in the former, and for each among the first `t % s` places of the latter. The optimum
//! tries each block as the partial one, beside the fullest of the others.

/// `blocks` has for each block the places that are taken, ascending.
pub fn moves(blocks: &[Vec<usize>], slots: usize) -> u64 {
    let rows: usize = blocks.iter().map(Vec::len).sum();
    let (full, rest) = (rows / slots, rows % slots);
    let mut fullest: Vec<&Vec<usize>> = blocks.iter().collect();
    fullest.sort_by_key(|block| std::cmp::Reverse(block.len()));
    let gaps = |block: &Vec<usize>| slots - block.len();
    let of_full: usize = fullest[..full].iter().map(|block| gaps(block)).sum();
    if rest == 0 {
        return of_full as u64;
    }
    let in_front = |block: &Vec<usize>| rest - block.partition_point(|slot| *slot < rest);
    let with_next = of_full + gaps(fullest[full]);
    let partial = fullest.iter().enumerate().map(|(at, block)| match at < full {
        true => with_next - gaps(block) + in_front(block),
        false => of_full + in_front(block),
    });
    partial.min().unwrap_or_default() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_blocks_and_no_rows_at_all_need_no_move() {
        assert_eq!(moves(&[vec![0, 1, 2, 3], vec![]], 4), 0);
        assert_eq!(moves(&[vec![], vec![]], 4), 0);
        assert_eq!(moves(&[], 4), 0);
    }

    #[test]
    fn the_fullest_are_filled_by_the_emptiest() {
        // Eight rows of four to a block: two blocks stay, and their gaps are filled.
        assert_eq!(moves(&[vec![0, 1, 3], vec![0, 3], vec![1, 2, 3]], 4), 2);
    }

    #[test]
    fn the_partial_block_is_the_one_whose_rows_are_in_front() {
        // Six rows: one full block, and one with its first two places taken.
        assert_eq!(moves(&[vec![0, 1, 2], vec![0, 1], vec![3]], 4), 1);
        // The last is as full as the first, and its rows are at the end.
        assert_eq!(moves(&[vec![0, 1, 2], vec![1, 2, 3]], 4), 1);
    }

    /// Every choice of full blocks and a partial one.
    fn tried(blocks: &[Vec<usize>], slots: usize) -> u64 {
        let rows: usize = blocks.iter().map(Vec::len).sum();
        let (full, rest) = (rows / slots, rows % slots);
        let mut least = u64::MAX;
        for choice in 0..1usize << blocks.len() {
            if choice.count_ones() as usize != full {
                continue;
            }
            let chosen = |at: usize| choice >> at & 1 == 1;
            let of_full: usize =
                (0..blocks.len()).filter(|at| chosen(*at)).map(|at| slots - blocks[at].len()).sum();
            if rest == 0 {
                least = least.min(of_full as u64);
            }
            for at in (0..blocks.len()).filter(|at| rest > 0 && !chosen(*at)) {
                let front = blocks[at].iter().filter(|slot| **slot < rest).count();
                least = least.min((of_full + rest - front) as u64);
            }
        }
        least
    }

    #[test]
    fn it_is_the_least_of_all_choices() {
        let mut state = 12345u64;
        let mut bit = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 63 == 1
        };
        for _ in 0..500 {
            let mut block = || (0..5).filter(|_| bit()).collect::<Vec<usize>>();
            let blocks = [block(), block(), block(), block()];
            assert_eq!(moves(&blocks, 5), tried(&blocks, 5), "{blocks:?}");
        }
    }
}
