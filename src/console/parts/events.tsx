import { chosenEvents, type WebhookEvent } from '../../contract/webhook-events.ts'
import { Message } from './words.tsx'

/* What messages to people and programs tell, and why one did not arrive, in words. */

type MessageEvent = 'account.code' | 'approval.asked_again' | 'approval.reminder' | 'outcome.unknown'

const events: Readonly<Record<WebhookEvent | MessageEvent, string>> = {
  'approval.created': 'Something waits for a person',
  'approval.decided': 'People approved, rejected or edited what waited',
  'approval.answered': 'A person answered a question of a run',
  'approval.expired': 'Nobody decided in time',
  'approval.withdrawn': 'It waits no longer',
  'approval.asked_again': 'A reminder that something waits',
  'approval.reminder': 'A reminder before something expires',
  'run.completed': 'A run has completed',
  'run.failed': 'A run has failed',
  'run.denied': 'A rule denied a run',
  'run.rejected': 'A run ended, because a person rejected it or a call',
  'run.expired': 'A run ended, because nobody decided in time',
  'run.cancelled': 'A run was cancelled',
  'effect.unknown': 'Nobody knows whether a call took effect',
  'outcome.unknown': 'Nobody knows whether a call took effect',
  'agent.unapproved_call': 'An agent made a call that was not allowed',
  'webhook.test': 'A test',
  'account.code': 'The code that links a Slack account',
}

export const eventWords = (event: string): string =>
  (events as Readonly<Record<string, string | undefined>>)[event] ?? event

export const eventOptions = chosenEvents.map((event) => [event, eventWords(event)] as const)

const asksOperator = 'Ask the operator of the service.'
const asksPerson = 'Ask the person whether the address is right.'
const asksAdmin = 'An admin looks at the organization’s connection to Slack, and tests it.'

/** What the code of a failure means, and who can do what about it. Other codes stand as they are. */
const causes: Readonly<Record<string, string>> = {
  mail_outcome_unknown:
    'Nobody can know whether it arrived: the mail server’s answer was lost. It is not sent twice. Ask the person.',
  mail_not_sent: `The mail could not be sent. ${asksOperator}`,
  mail_not_configured: `The service has no mail server. ${asksOperator}`,
  mail_login_failed: `The mail server refuses the login of the service. ${asksOperator}`,
  mail_tls_failed: `The connection to the mail server is not safe. ${asksOperator}`,
  mail_unreachable: `The mail server does not answer. ${asksOperator}`,
  mail_timeout: `The mail server did not answer in time. ${asksOperator}`,
  mail_forbidden: `The mail server does not let the service send. ${asksOperator}`,
  mail_quota_exceeded: `The mail server takes no more mails for now. ${asksOperator}`,
  mail_refused: `The mail server refused it. ${asksPerson}`,
  mail_recipients_refused: `The mail server refuses the address. ${asksPerson}`,
  mail_address_invalid: `The mail server does not know such an address. ${asksPerson}`,
  slack_account_not_linked: 'The person has linked no Slack account. They do it on their account page.',
  slack_user_not_found: 'Slack does not know the account. The person links it again on their account page.',
  slack_forbidden: `Slack does not let the app do it. ${asksAdmin}`,
  slack_missing_scope: `The connection to Slack lacks a right. ${asksAdmin}`,
  slack_unknown: 'Nobody can know whether it arrived: Slack’s answer was lost.',
  connection_expired: `Slack refuses the login of the organization. ${asksAdmin}`,
}

/** `slack_refused` and others are in the log of the service. */
export const Cause = ({ error }: { error: string }) => {
  const cause = causes[error]
  if (cause !== undefined) return <>{cause}</>
  if (!/^[a-z_]+$/.test(error)) return <Message text={error} />
  return (
    <>
      <code>{error}</code>. The log of the service says more: ask its operator.
    </>
  )
}
