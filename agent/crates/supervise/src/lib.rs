//! Spawn, contain, watch and kill process trees; place them on CPUs.
