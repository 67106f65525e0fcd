import type { LinkedAccount } from '../../governance/people/slack-accounts.ts'
import type { State } from '../kit/executor.ts'
import type { StateReaderOf } from '../kit/params.ts'
import { namesOf, type Names } from './names.ts'
import { placeAt, revisionOf } from './place.ts'

const accountState = async (account: LinkedAccount | null, names: Names): Promise<State> => ({
  revision: revisionOf(account),
  fields: {
    'Slack account of the requester': account === null ? 'none is linked' : await names.person(account.id),
  },
})

/**
 * Reads what approvers see about the recipient. For a message to `@me`, they see the linked account of the requester.
 * For the id of a channel or person, they see the name that belongs to this id.
 */
export const readRecipient: StateReaderOf<'slack_send_message'> = async (call, context) => {
  const place = placeAt(call.params.channel)
  const names = namesOf(call, context, 'slack_send_message')
  if (place.kind === 'requester') return accountState(await context.tools.slackAccount(call), names)
  const revision = revisionOf(null)
  if (place.kind === 'id') return { revision, fields: { 'channel in Slack': await names.channel(place.id) } }
  if (place.kind === 'person')
    return { revision, fields: { 'person in Slack': await names.person(place.id) } }
  return { revision }
}

/** Reads the account that is invited to a new channel. Approvers see this account. */
export const readInvited: StateReaderOf<'slack_create_channel'> = async (call, context) =>
  accountState(await context.tools.slackAccount(call), namesOf(call, context, 'slack_create_channel'))
