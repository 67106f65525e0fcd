import { serviceOf, type ToolDeclaration } from '../tools/kit/tool.ts'
import { approvedState } from '../governance/approvals/approved-state.ts'
import type { Context } from '../governance/context.ts'
import { StateChanged } from '../tools/kit/executor.ts'

/**
 * An approval always covers the parameters of a call. Returns whether an approval can also cover the state of the thing
 * that the call changes, or the connection that the call uses.
 */
export const coversMore = (tool: ToolDeclaration): boolean =>
  tool.precondition !== undefined || serviceOf(tool) !== null

/** Returns words for the thing that a call changes, as a part of a sentence. Example: `the value in the memory`. */
export const changedBy = ({ precondition }: Pick<ToolDeclaration, 'precondition'>): string =>
  precondition?.of ?? 'what it changes'

/**
 * The state that the approvers of a call saw, in addition to the parameters. The call acts only if this state has not
 * changed.
 */
export class Approved {
  /** The thing that the call changes must have this revision. If null, any revision is allowed. */
  readonly revision: string | null
  /**
   * The id of the connection that the call must use. If null, the call must go without a connection. If undefined, any
   * connection is allowed.
   */
  readonly #connection: string | null | undefined

  constructor(revision: string | null = null, connection?: string | null) {
    this.revision = revision
    this.#connection = connection
  }

  /**
   * Reads the state that the approvers of a call saw. `approvalId` is null if the call needed no approval, or if an
   * earlier attempt may have made the call.
   */
  static async read(
    context: Pick<Context, 'db' | 'sealer'>,
    tool: ToolDeclaration,
    approvalId: string | null,
  ): Promise<Approved> {
    if (approvalId === null || !coversMore(tool)) return new Approved()
    const state = await approvedState(context, approvalId)
    // The saved state may say nothing about the connection. A tool with `ownService` can work without a connection, so
    // its call must then go without one (null). For every other tool, any connection is allowed (undefined).
    const unsaid = tool.ownService === undefined ? undefined : null
    return new Approved(state?.revision, state?.connection === undefined ? unsaid : state.connection)
  }

  /**
   * Throws StateChanged if the approvers saw another connection. `name` begins with the id of the connection that the
   * call is about to use. `name` is null if the call goes without a connection.
   */
  requireConnection(name: string | null): void {
    const id = name?.split(' ', 1)[0] ?? null
    if (this.#connection === undefined || id === this.#connection) return
    throw new StateChanged('the connection that the call uses')
  }
}
