//! The memory that a thread holds. The benchmark of memory includes this file.

#![allow(unsafe_code)] // the counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated and not freed. What it frees for other threads counts as well.
pub fn live() -> isize {
    LIVE.get()
}

fn count(taken: usize, freed: usize) {
    LIVE.set(LIVE.get() + taken as isize - freed as isize);
}

// SAFETY: every call goes on to the system's allocator as it came; counting touches no memory but the thread's own number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(0, layout.size());
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
