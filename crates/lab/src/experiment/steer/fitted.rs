//! Pages as heavy, and over the fat channel alone as slow, as paper 5 prints them (docs/decisions/0076).
//!
//! Two numbers are free and two are printed: sizes grow by one factor until a page has the mean weight of Table 1, and what a page
//! computes grows by one factor until all-eMBB has the printed mean. Both are found anew for the pages of each run; no other
//! policy is looked at.

use super::FAT;
use super::network::BASE;
use super::play::{Cell, Visitor};
use crate::page::{Kind, Page, Start};
use headstart_core::steer::policy;
use headstart_core::time::Duration;

/// Mean bytes of a page: in Table 1, 476.3 KB are 22.1 % of it.
pub const WEIGHT: f64 = 476.3e3 / 0.221;
/// A page without computation of its own (a recording) computes in proportion to what it must read: so long a byte of a document,
/// style sheet or script, times the factor that is found.
const A_BYTE: f64 = 1e-6;
/// How near the mean must come, as a share of what is printed.
const NEAR: f64 = 0.002;
/// Halvings of the interval in which the factor lies; 2^-16 of it is less than [`NEAR`].
const HALVINGS: usize = 16;
/// The search ends at this factor.
const MOST: f64 = 1e4;

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// By which sizes are multiplied.
    pub sizes: f64,
    /// By which computation is multiplied.
    pub compute: f64,
    /// The mean page load time over the fat channel alone, in ms.
    pub found: f64,
}

impl Fit {
    /// Fits `pages` so that the fat channel alone takes `printed` ms on average, over the worlds that [`super::play::Block`] plays.
    pub fn of(pages: &[Page], printed: f64, seed: u64, worlds: u64) -> anyhow::Result<Self> {
        let bytes = pages.iter().map(Page::bytes).sum::<u64>() as f64 / pages.len().max(1) as f64;
        let sizes = WEIGHT / bytes.max(1.0);
        let found = |compute: f64| -> anyhow::Result<Self> {
            let fit = Self { sizes, compute, found: 0.0 };
            Ok(Self { found: fit.mean(pages, seed, worlds)?, ..fit })
        };
        let (mut least, mut most) = (found(0.0)?, found(1.0)?);
        while most.found < printed && most.compute < MOST {
            (least, most) = (most, found(most.compute * 2.0)?);
        }
        for _ in 0..HALVINGS {
            let near = |fit: &Self| (fit.found / printed - 1.0).abs() < NEAR;
            if let Some(fit) = [least, most].into_iter().find(near) {
                return Ok(fit);
            }
            let middle = found(f64::midpoint(least.compute, most.compute))?;
            if middle.found < printed { least = middle } else { most = middle }
        }
        Ok(least)
    }

    /// The mean page load time over the fat channel alone, in ms; pages that fail are left out.
    fn mean(&self, pages: &[Page], seed: u64, worlds: u64) -> anyhow::Result<f64> {
        let cell = Cell::new("ideal", BASE);
        let fat = policy::find(FAT)?;
        let mut times = Vec::new();
        for page in pages {
            let page = self.apply(page);
            for world in 0..worlds {
                let seed = seed.wrapping_mul(7919).wrapping_add(world);
                times.extend(Visitor::new(&page, &cell, fat, seed)?.load().time());
            }
        }
        anyhow::ensure!(!times.is_empty(), "no page could be loaded over the fat channel alone");
        Ok(times.iter().sum::<f64>() / times.len() as f64)
    }

    /// `page` with these sizes and this computation.
    pub fn apply(&self, page: &Page) -> Page {
        let mut page = page.clone();
        for object in &mut page.objects {
            object.response_bytes = (object.response_bytes as f64 * self.sizes) as u64;
        }
        let computes = |start: Start| matches!(start, Start::After { gap, .. } if !gap.is_zero());
        let has_its_own = page.objects.iter().any(|o| computes(o.structure) || computes(o.gate));
        let read: Vec<Duration> = page
            .objects
            .iter()
            .map(|o| match o.kind {
                Kind::Doc | Kind::Frame | Kind::Css | Kind::Js => {
                    Duration::from_secs_f64(o.response_bytes as f64 * A_BYTE)
                }
                _ => Duration::ZERO,
            })
            .collect();
        let later = |start: Start| match start {
            Start::After { parent, gap } => {
                let gap = if has_its_own { gap } else { read[parent] };
                Start::After { parent, gap: gap.mul_f64(self.compute) }
            }
            other => other,
        };
        for object in &mut page.objects {
            (object.structure, object.gate) = (later(object.structure), later(object.gate));
        }
        page
    }

    /// For people.
    pub fn about(&self) -> String {
        format!(
            "sizes times {:.3} (2.16 MB a page) and computation times {:.3}, by which the fat channel alone takes {:.0} ms on average",
            self.sizes, self.compute, self.found
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::play::as_in_the_paper;
    use super::*;
    use crate::page::synthetic;

    fn pages() -> Vec<Page> {
        synthetic::pages(1, 6).enumerate().map(|(n, p)| as_in_the_paper(&p, n as u64)).collect()
    }

    /// The mean of `pages` under a fit, played anew.
    fn again(fit: &Fit, pages: &[Page]) -> f64 {
        fit.mean(pages, 3, 1).unwrap()
    }

    #[test]
    fn the_fat_channel_alone_takes_as_long_as_is_printed_on_pages_as_heavy() {
        let pages = pages();
        let fit = Fit::of(&pages, 1635.0, 3, 1).unwrap();
        let bytes = pages.iter().map(|p| fit.apply(p).bytes()).sum::<u64>() as f64 / pages.len() as f64;
        assert!((bytes / WEIGHT - 1.0).abs() < 0.001, "{bytes}");
        assert!((again(&fit, &pages) / 1635.0 - 1.0).abs() < 0.01, "{fit:?}");
    }

    #[test]
    fn a_page_that_computes_nothing_is_given_computation_where_it_was_recorded_to_wait() {
        let mut pages = pages();
        let none = |start: &mut Start| {
            if let Start::After { gap, .. } = start {
                *gap = Duration::ZERO;
            }
        };
        pages.iter_mut().flat_map(|p| &mut p.objects).for_each(|o| {
            none(&mut o.structure);
            none(&mut o.gate);
        });
        let fit = Fit::of(&pages, 1635.0, 3, 1).unwrap();
        assert!(fit.compute > 0.0 && (again(&fit, &pages) / 1635.0 - 1.0).abs() < 0.01, "{fit:?}");
        let parents = |p: &Page| p.objects.iter().map(|o| o.structure.parent()).collect::<Vec<_>>();
        assert!(pages.iter().all(|p| parents(p) == parents(&fit.apply(p))), "who waits for whom is as recorded");
    }
}
