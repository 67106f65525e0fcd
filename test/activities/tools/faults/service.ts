import type { Connectable } from '../../../../src/catalog/integrations/index.ts'
import type { Repeat } from '../../../../src/catalog/tool.ts'
import type { ToolName } from '../../../../src/catalog/index.ts'
import type { Json, JsonObject } from '../../../../src/policy/types.ts'
import type { Emulator } from '../../../support/emulators.ts'
import type { Fault } from '../../../support/fault-proxy.ts'

/** Asks the service itself, past the proxy, with the credential of the tests. */
export type Ask = (method: string, path: string, body?: object) => Promise<Json>

/** One tool whose calls write to the service. */
export interface WritingTool {
  /** Parameters of a call that writes `text`: letters and digits that no other call has. */
  params(text: string, place: string): JsonObject
  /** What the service holds of the call that writes `text`: the output of each effect. `url` is that of the connection. */
  made(ask: Ask, text: string, place: string, url: string): Promise<Json[]>
  /** The service's lists lag without a limit: a call that is not found is never made again, and a person is asked. */
  readonly mayStillAppear?: true
  /** Other ends than those of rows.ts, by the fault's name. Say why beside each. */
  readonly differs?: Readonly<Record<string, Ended>>
}

/** How a call ends: what the service holds of it, and what its step says. */
export interface Ended {
  readonly state: 'completed' | 'failed' | 'unknown_outcome' | 'cancelled'
  readonly made: number
  /** The code of a failed step. */
  readonly error?: string
}

/** A service and its writing tools. With an entry in services.ts, faults.test.ts sends each tool through each fault. */
export interface FaultService {
  readonly name: Connectable
  /** For a service with several entries: which of its tools these are. */
  readonly part?: string
  /** The credential of a connection to `url`; default: `token` and `base_url`. */
  credential?(url: string): object
  /** Starts a stand-in that keeps state, and fills it with what the calls need. */
  start(): Promise<Emulator>
  /** The place in the stand-in that the calls write to, such as a repository or a channel. */
  readonly place: string
  /** The address of the real service, for live.ts. */
  readonly live?: { readonly url: string }
  /** How calls that go through this service are repeated, if it differs from the tool's declaration. */
  readonly repeat?: Repeat
  /** Requests have a form as their body, and not JSON. */
  readonly takesForms?: true
  readonly tools: Readonly<Partial<Record<ToolName, WritingTool>>>
  /** Tools that only read. They are sent through hostile answers. */
  readonly reads?: {
    /** The parameters of a call of each. */
    readonly tools: Readonly<Partial<Record<ToolName, (place: string) => JsonObject>>>
    /** Error codes of the step. */
    readonly codes: Readonly<Record<'tooLarge' | 'badAnswer' | 'unavailable', string>>
  }
  /** Whether this request is the write of a call. All others read. */
  isWrite(method: string, path: string): boolean
  /** The answer of a list in which nothing is yet. */
  readonly emptyList: Fault
  /** The answer to a look that nobody can repeat with success. */
  readonly cannotLook: Fault
  /** Clear refusals of a write: the answer, and the error code of the step. */
  readonly refusals: Readonly<Record<string, readonly [answer: Fault, code: string]>>
  /** Error codes of the step. */
  readonly codes: { readonly rateLimited: string; readonly redirected: string }
}
