/** Numbers of PostgreSQL's advisory locks. Two kinds of work with one number would wait for each other. */
export const advisoryLocks = {
  /** Held while the database is migrated. So of processes that start together, only one migrates. */
  migration: 7_236_001,
  /** Held while the first organization is created. So of processes that start together, only one creates it. */
  bootstrap: 7_236_002,
  /** Held while data keys are rotated. So only one rotation runs at a time. */
  rotation: 7_236_003,
} as const
