import { serviceOf, type ToolDeclaration } from '../catalog/tool.ts'
import { approvedState } from '../governance/approvals/approved-state.ts'
import type { Context } from '../governance/context.ts'
import { StateChanged } from './tools/executor.ts'

/**
 * Whether an approval of a call can cover more than its parameters: the state of the thing that the call changes, or
 * the connection that the call uses.
 */
export const coversMore = (tool: ToolDeclaration): boolean =>
  tool.precondition !== undefined || serviceOf(tool) !== null

/** Names the thing that a call changes, as a part of a sentence. */
export const changedBy = ({ precondition }: Pick<ToolDeclaration, 'precondition'>): string =>
  precondition?.of ?? 'what it changes'

/** The state that the approvers of a call saw besides its parameters. The call acts on no other state. */
export class Approved {
  /** The thing that the call changes must have this revision; null: any revision. */
  readonly revision: string | null
  /**
   * The id of the connection that the call must use. null: the call must go without a connection. undefined: any
   * connection is allowed.
   */
  readonly #connection: string | null | undefined

  constructor(revision: string | null = null, connection?: string | null) {
    this.revision = revision
    this.#connection = connection
  }

  /** `approvalId`: null if the call needed no approval. */
  static async read(
    context: Pick<Context, 'db' | 'sealer'>,
    tool: ToolDeclaration,
    approvalId: string | null,
  ): Promise<Approved> {
    if (approvalId === null || !coversMore(tool)) return new Approved()
    const state = await approvedState(context, approvalId)
    // The saved state may not mention a connection, for example in an approval of an older version. A tool with
    // `ownService` can work without a connection, so its call must then go without one (null). For every other tool,
    // any connection is allowed (undefined).
    const unsaid = tool.ownService === undefined ? undefined : null
    return new Approved(state?.revision, state?.connection === undefined ? unsaid : state.connection)
  }

  /**
   * Throws StateChanged if the approvers saw another connection. `name` is the name of the connection that the call is
   * about to use; null: the call goes without a connection.
   */
  requireConnection(name: string | null): void {
    const id = name?.split(' ', 1)[0] ?? null
    if (this.#connection === undefined || id === this.#connection) return
    throw new StateChanged('the connection that the call uses')
  }
}
