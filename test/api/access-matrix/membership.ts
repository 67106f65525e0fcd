import type { Role } from '../../../src/policy/types.ts'
import { addConnection, addOrganization } from '../fixtures.ts'
import type { World } from './world.ts'

/** The sender's membership in the organization of a World, and in others. */
export class Membership {
  readonly #world: World
  /** The role that the sender had before leaving; null: the sender has not left. */
  #left: Role | null = null

  constructor(world: World) {
    this.#world = world
  }

  /**
   * The id of a person whom the sender may remove. An owner may remove somebody else; all others may remove only
   * themselves.
   */
  async aLeaver(): Promise<string> {
    const row = await this.#membership().select('role').executeTakeFirst()
    if (row === undefined || row.role === 'owner') return this.#world.anotherMember()
    this.#left = row.role
    return this.#world.sender.userId
  }

  /** Makes the sender a member again if the sender has left. */
  async comeBack(): Promise<void> {
    if (this.#left === null) return
    const { organizationId, sender, server } = this.#world
    const back = { organization_id: organizationId, user_id: sender.userId, role: this.#left }
    await server.context.db.insertInto('memberships').values(back).execute()
  }

  /** Links a Slack account to the sender, if the sender is a member. */
  async linkSlack(account: string): Promise<void> {
    const { organizationId, sender, server } = this.#world
    await server.context.db
      .updateTable('memberships')
      .set({ slack_account: account, slack_linked_at: new Date() })
      .where('organization_id', '=', organizationId)
      .where('user_id', '=', sender.userId)
      .execute()
  }

  /** Makes it possible that the sender requests a code: the organization has Slack, and no code was sent lately. */
  async mayClaimSlack(): Promise<void> {
    const { organizationId, sender, server } = this.#world
    const { context } = server
    await context.db.deleteFrom('slack_claims').where('user_id', '=', sender.userId).execute()
    const { rowCount } = await context.pool.query(
      `select from connections where organization_id = $1 and integration = 'slack' and owner_id is null
       and status <> 'revoked'`,
      [organizationId],
    )
    if (rowCount !== 0) return
    await addConnection(context, organizationId, sender.userId, 'slack', 'organization')
  }

  /** Invites the sender to a third organization. Returns the invitation's token. */
  async invitationToSender(): Promise<string> {
    const { sender, server } = this.#world
    const { email } = await server.context.db
      .selectFrom('users')
      .select('email')
      .where('id', '=', sender.userId)
      .executeTakeFirstOrThrow()
    const { id, owner } = await addOrganization(server.context)
    const path = `/organizations/${id}/invitations`
    const answer = await server.call(owner.key, 'POST', path, { email, send_mail: false })
    return answer.body.token
  }

  #membership() {
    const { organizationId, sender, server } = this.#world
    return server.context.db
      .selectFrom('memberships')
      .where('organization_id', '=', organizationId)
      .where('user_id', '=', sender.userId)
  }
}
