//! In-process nodes and real servers for tests of distributed locks.
