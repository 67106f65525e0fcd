import type { LinkedAccount } from '../../../governance/people/slack-accounts.ts'
import type { State } from '../executor.ts'
import type { StateReaderOf } from '../params.ts'
import { placeAt, revisionOf } from './place.ts'

const accountState = (account: LinkedAccount | null): State => ({
  revision: revisionOf(account),
  fields: { 'Slack account of the requester': account?.id ?? 'none is linked' },
})

/** Reads the account that a message to `@me` goes to. Approvers see this account. */
export const readRecipient: StateReaderOf<'slack_send_message'> = async (call, { tools }) =>
  placeAt(call.params.channel).kind === 'requester'
    ? accountState(await tools.slackAccount(call))
    : { revision: revisionOf(null) }

/** Reads the account that is invited to a new channel. Approvers see this account. */
export const readInvited: StateReaderOf<'slack_create_channel'> = async (call, { tools }) =>
  accountState(await tools.slackAccount(call))
