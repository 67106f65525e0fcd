import type { Label } from '../policy/types.ts'

/* Tools and governance both know these. */

/** The tool does not work in the organization. */
export const toolNotAvailable = 'tool_not_available'
/** The connection was made without a right that the tool needs. */
export const connectionLacksScope = 'connection_lacks_scope'
/** The service no longer accepts the credential of the connection. */
export const connectionExpired = 'connection_expired'

export interface LinkedAccount {
  /** The id is the one in Slack, such as `U012ABCDEF`. */
  readonly id: string
  /** This is measured by the database's clock. */
  readonly linkedSecondsAgo: number
}

export interface SealedMemory {
  readonly value_sealed: Buffer
  readonly value_version: string
}

export interface MemoryWrite {
  readonly organizationId: string
  /** This person runs the workflow. */
  readonly userId: string
  readonly key: string
  readonly text: string
  readonly sealed: SealedMemory
  /** These are the input labels of the call. */
  readonly labels: readonly Label[]
  /** The approvers saw this revision. It is null if the call needed no approval. */
  readonly revision: string | null
}
