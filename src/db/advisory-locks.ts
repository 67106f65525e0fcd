/** Different kinds of work need different numbers, or else they wait for each other. */
export const advisoryLocks = {
  /** While the database is migrated: of several processes, only one does it. */
  migration: 7_236_001,
  /** While the first organization is created: of several processes, only one does it. */
  bootstrap: 7_236_002,
  rotation: 7_236_003,
} as const
