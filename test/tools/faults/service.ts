import type { Connectable, ToolName } from '../../../src/tools/index.ts'
import type { Repeat } from '../../../src/tools/kit/tool.ts'
import type { Json, JsonObject } from '../../../src/policy/types.ts'
import type { Emulator } from '../../support/emulators.ts'
import type { Fault } from '../../support/fault-proxy.ts'

/** Sends a request straight to the service, past the proxy, with the credential of the tests. */
export type Ask = (method: string, path: string, body?: object) => Promise<Json>

/** One tool whose calls write to the service. */
export interface WritingTool {
  /** Parameters of a call that writes `text`. The text has only letters and digits, and no other call uses it. */
  params(text: string, place: string): JsonObject
  /**
   * Asks the service for the effects of the call that writes `text`. Returns the output of each effect. `url` is the
   * address in the connection.
   */
  made(ask: Ask, text: string, place: string, url: string): Promise<Json[]>
  /** The service's lists may lag without a limit. A call that is not found is never repeated; a person is asked. */
  readonly mayStillAppear?: true
  /** How many requests each attempt sends before its write, without those for access tokens. Default: 0. */
  readonly readsBefore?: number
  /** Expected ends that differ from rows.ts, by the fault's name. A comment beside each end says why. */
  readonly differs?: Readonly<Record<string, Ended>>
}

/** How a call ends: the state of its step, and the number of its effects in the service. */
export interface Ended {
  readonly state: 'completed' | 'failed' | 'unknown_outcome' | 'cancelled'
  readonly made: number
  /** The code of a failed step. */
  readonly error?: string
}

/** What stands in for the service, and the part of it that is checked against the description that the vendor publishes. */
export interface StandIn {
  /** Default: the title of the service. */
  readonly service?: string
  readonly standIn: string
  readonly checked: string
  readonly not: string
}

/** A fact about the service that no stand-in on this machine can show. */
export interface Assumption {
  /** Default: the title of the service. */
  readonly service?: string
  readonly what: string
  /** Address of the vendor's page that states the assumption; null if no page does. */
  readonly page: string | null
  /** Why no page states the assumption, and what happens if the assumption is wrong. */
  readonly withoutPage?: string
}

/**
 * A service and its writing tools. A file of `test/tools/services` exports it. faults.test.ts sends each writing tool
 * through each fault.
 */
export interface FaultService {
  readonly name: Connectable
  /** The name of this entry's group of tools, if the service has several entries. */
  readonly part?: string
  /** The credential of a connection to `url`; default: `token` and `base_url`. */
  credential?(url: string): object
  /** Starts a stand-in that keeps state, and creates the objects that the calls need. */
  start(): Promise<Emulator>
  /** The place in the stand-in that the calls write to, such as a repository or a channel. */
  readonly place: string
  /** The address of the real service, for live.ts. */
  readonly live?: { readonly url: string }
  /** How calls that go through this service are repeated, if it differs from the tool's declaration. */
  readonly repeat?: Repeat
  /** Requests have a form as their body instead of JSON. */
  readonly takesForms?: true
  readonly tools: Readonly<Partial<Record<ToolName, WritingTool>>>
  /** Tools that only read. The tests give hostile answers to them, and to what writing tools read first. */
  readonly reads?: {
    /** The parameters of one call of each tool. */
    readonly tools: Readonly<Partial<Record<ToolName, (place: string) => JsonObject>>>
    /** Error codes of the step, by the kind of bad answer. */
    readonly codes: Readonly<Record<'tooLarge' | 'badAnswer' | 'unavailable', string>>
  }
  /** Whether this request is the write of a call. Every other request is a read. */
  isWrite(method: string, path: string): boolean
  /** The service's answer for an empty list. */
  readonly emptyList: Fault
  /** An answer that makes a look for a call fail for good: no repetition can succeed. */
  readonly cannotLook: Fault
  /** Clear refusals of a write: the answer, and the error code of the step. */
  readonly refusals: Readonly<Record<string, readonly [answer: Fault, code: string]>>
  /** Error codes of the step. */
  readonly codes: { readonly rateLimited: string; readonly redirected: string }
  readonly standIns: readonly StandIn[]
  /** One assumption at least says how the service limits requests. */
  readonly assumptions: readonly Assumption[]
}
