import type { StepError } from '../../db/schema/runs.ts'
import type { Exceeded } from '../../governance/quotas/run-quota.ts'
import type { OwnWrite } from '../../governance/runs/outcome.ts'
import type { Json, Label } from '../../policy/types.ts'

/** One decided call, as the policy interceptor hands it to a tool's body. */
export interface ToolCall<Params> {
  /** Templates resolved, `me` an address, validated by the tool's schema, defaults filled in. */
  readonly params: Params
  readonly organizationId: string
  readonly runId: string
  readonly stepId: string
  /** null for a step without `for_each`. */
  readonly itemIndex: number | null
  readonly requester: { readonly userId: string }
  /** Stable over all attempts of this call: (run, step, item). */
  readonly idempotencyKey: string
  /** Input labels the call was decided on. */
  readonly labels: readonly Label[]
}

/** What a tool's body may touch. */
export interface ToolContext {
  readonly signal: AbortSignal
  /**
   * Commits that bytes may leave from here on (commit point `effect.sent`). An `unsafe` tool awaits it immediately
   * before its irreversible act. Throws when the attempt was superseded or the run cancelled: then nothing may be sent.
   */
  pointOfNoReturn(): Promise<void>
  readonly tools: ToolServices
}

/** The outside world as configured; one per process. */
export interface ToolServices {
  readonly fileRoot: string
  readonly smtpUrl: string | null
  readonly mailFrom: string
  readonly memory: {
    get(organizationId: string, key: string): Promise<{ value: Json; labels: readonly Label[] } | null>
    /** The JSON text of a value, sealed as a row holds it. */
    seal(organizationId: string, key: string, text: string): Promise<Buffer>
  }
}

export interface ToolResult {
  readonly output: Json
  /** Labels that travel with this very value, beyond those the tool declares (e.g. a memory value's own). */
  readonly labels?: readonly Label[]
  /** For `transactional` tools: the write itself, run inside the transaction that commits the outcome; or what
   * it would exceed, and then nothing is written. */
  readonly commit?: (write: OwnWrite) => Promise<Exceeded | StepError | null>
  /** Currency units that the call has cost; counted for the organization's month. */
  readonly cost?: number
}

export type Executor<Params> = (call: ToolCall<Params>, context: ToolContext) => Promise<ToolResult>

/** A tool's refusal or failure. The message says what to change and never holds a secret or a parameter's value. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  readonly code: string
  /** Whether the same call could succeed later; what retrying cannot fix is not retried. */
  readonly retryable: boolean
  constructor(code: string, message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause })
    this.code = code
    this.retryable = options.retryable
  }
}

/** Bytes have left and no answer tells what became of them: the step becomes `unknown_outcome`. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}
