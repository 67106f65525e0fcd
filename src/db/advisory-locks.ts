/**
 * Numbers of PostgreSQL's advisory locks. Different kinds of work need different numbers, or else they wait for each
 * other.
 */
export const advisoryLocks = {
  /**
   * This lock is held while the database is migrated. If several processes start together, only one of them migrates.
   */
  migration: 7_236_001,
  /**
   * This lock is held while the first organization is created. If several processes start together, only one process
   * creates an organization.
   */
  bootstrap: 7_236_002,
  /** This lock is held while data keys are rotated. So only one rotation runs at a time. */
  rotation: 7_236_003,
} as const
