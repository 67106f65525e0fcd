import type { Person } from './client.ts'
import type { Stage } from './show.ts'

/** What a show has changed in an organization, and how to change it back. */
export interface Changes {
  /** Saves a rule, and deletes it in the end. */
  save(kind: 'rules' | 'label-rules', body: Readonly<Record<string, unknown>>): Promise<void>
  /** Takes a step for the end of the show. Later ones run first. */
  onUndo(step: () => Promise<unknown>): void
}

interface Settings {
  readonly approvals_enabled: boolean
  readonly allow_self_approval: boolean
}

/**
 * Turns approvals on, without those of the requester. Rules are saved by `as`. Everything is changed back at the end of
 * the show. `what` names it, for a show that is ended before.
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

/** Takes every step, also after one that fails. Throws with the messages of all that failed. */
async function undoAll(undoing: (() => Promise<unknown>)[]): Promise<void> {
  const failures: string[] = []
  for (let step = undoing.pop(); step !== undefined; step = undoing.pop())
    await step().catch((error: unknown) => failures.push((error as Error).message))
  if (failures.length > 0) throw new Error(`not everything was changed back:\n${failures.join('\n')}`)
}
