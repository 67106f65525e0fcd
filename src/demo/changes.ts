import type { Client, Person } from './client.ts'

/** What a show has changed in an organization, and how to change it back. */
export interface Changes {
  /** Saves a rule, and deletes it in the end. */
  save(kind: 'rules' | 'label-rules', body: Readonly<Record<string, unknown>>): Promise<void>
  /** Takes a step of `undo`. Later ones run first. */
  onUndo(step: () => Promise<unknown>): void
  /** Deletes and restores everything. */
  undo(): Promise<void>
}

interface Settings {
  readonly approvals_enabled: boolean
  readonly allow_self_approval: boolean
}

/** Turns approvals on, without those of the requester. Rules are saved by `as`. */
export async function turnApprovalsOn(client: Client, organizationId: string, as: Person): Promise<Changes> {
  const organization = `/organizations/${organizationId}`
  const governance = `${organization}/governance`
  const undoing: (() => Promise<unknown>)[] = []
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
    async undo() {
      for (let step = undoing.pop(); step !== undefined; step = undoing.pop()) await step()
    },
  }
}
