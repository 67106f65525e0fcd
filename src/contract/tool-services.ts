import type { Label } from '../policy/types.ts'

/* What tools and governance both know: error codes, and values that one gives the other. */

/** The error code of a call to a tool that does not work in the organization. */
export const toolNotAvailable = 'tool_not_available'
/** The error code of a call that fails because its connection was made without a right that the tool needs. */
export const connectionLacksScope = 'connection_lacks_scope'
/** The error code of a call that fails because the service no longer accepts the credential of the connection. */
export const connectionExpired = 'connection_expired'

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
