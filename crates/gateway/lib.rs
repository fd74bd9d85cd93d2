//! The life of one message, from arrival to reply.
