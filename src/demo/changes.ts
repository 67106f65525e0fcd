import type { Person } from './client.ts'
import type { Stage } from './show.ts'

/**
 * The changes that a show (`npm run demo` or `npm run samples`) makes in an organization, and the steps that undo them.
 */
export interface Changes {
  /** Saves a rule, and deletes it at the end of the show. */
  save(kind: 'rules' | 'label-rules', body: Readonly<Record<string, unknown>>): Promise<void>
  /** Registers a step for the end of the show. The step that was registered last runs first. */
  onUndo(step: () => Promise<unknown>): void
}

interface Settings {
  readonly approvals_enabled: boolean
  readonly allow_self_approval: boolean
}

/**
 * Turns approvals on and self-approval off. The returned `save` saves rules as the person `as`. All changes are undone
 * at the end of the show. `what` describes the changes. If the show is ended before it has undone them, it prints
 * `what`.
 */
export async function turnApprovalsOn(
  { stack, client, atEnd }: Stage,
  as: Person,
  what: string,
): Promise<Changes> {
  const organization = `/organizations/${stack.bootstrap.organization_id}`
  const governance = `${organization}/governance`
  const undoing: (() => Promise<unknown>)[] = []
  atEnd(what, () => undoAll(undoing))
  const before = await client.get<Settings>('owner', 'GET', governance)
  const { approvals_enabled, allow_self_approval } = before
  undoing.push(() => client.get('owner', 'PATCH', governance, { approvals_enabled, allow_self_approval }))
  const settings: Settings = { approvals_enabled: true, allow_self_approval: false }
  await client.get('owner', 'PATCH', governance, settings)
  return {
    async save(kind, body) {
      const { id } = await client.get<{ id: string }>(as, 'POST', `${organization}/${kind}`, body)
      undoing.push(() => client.get(as, 'DELETE', `${organization}/${kind}/${id}`))
    },
    onUndo: (step) => void undoing.push(step),
  }
}

/**
 * Runs every undo step, even if an earlier step has failed. Then throws one error with the messages of all failed
 * steps.
 */
async function undoAll(undoing: (() => Promise<unknown>)[]): Promise<void> {
  const failures: string[] = []
  for (let step = undoing.pop(); step !== undefined; step = undoing.pop())
    await step().catch((error: unknown) => failures.push((error as Error).message))
  if (failures.length > 0) throw new Error(`not everything was changed back:\n${failures.join('\n')}`)
}
