//! May this call leave? Pure: no runtime, no clock, no socket.
