import type { z } from 'zod'
import type { approval } from '../../src/api/routes/approvals.ts'
import type { receipt, execution, run } from '../../src/api/schemas/runs.ts'

/** The bodies of answers, as openapi.json describes them. */
export type Run = z.infer<typeof run>
export type Execution = z.infer<typeof execution>
export type Receipt = z.infer<typeof receipt>
export type Approval = z.infer<typeof approval>
export interface Rule {
  readonly id: string
  readonly name: string
}
export interface Verified {
  readonly valid: boolean
  readonly entries: number
  readonly head: { readonly seq: number; readonly hash: string }
  readonly first_mismatch: unknown
}
