import type { Label } from '../policy/types.ts'

/* Values that tools get from the service, and give to it. */

/** The Slack account of a member. */
export interface LinkedAccount {
  /** The id of the account in Slack, such as `U012ABCDEF`. */
  readonly id: string
  /** Seconds since the account was linked, by the database's clock. */
  readonly linkedSecondsAgo: number
}

/** The columns of `memory` that store a sealed value. */
export interface SealedMemory {
  readonly value_sealed: Buffer
  readonly value_version: string
}

/** A value that a call of a run stores in the memory. */
export interface MemoryWrite {
  readonly organizationId: string
  /** The person who runs the workflow. */
  readonly userId: string
  readonly key: string
  /** The value as JSON text. */
  readonly text: string
  readonly sealed: SealedMemory
  /** The input labels of the call. */
  readonly labels: readonly Label[]
  /** The revision of the key that the approvers of the call saw. Is null if the call needed no approval. */
  readonly revision: string | null
}
