import { h, type ComponentChild } from 'preact'
import { accountPath } from '../../contract/pages.ts'
import { hasRole } from '../role.ts'
import type { Organization } from '../visit.ts'
import { PostForm } from './layout.ts'
import { Time } from './time.ts'
import { Words } from './words.ts'

/** A person's Slack account in an organization, as `GET /me` shows it. */
export interface SlackState {
  readonly slack_account: string | null
  /** The account to which a code was sent. Is null if no code waits for its entry. */
  readonly slack_claim: { readonly external_id: string; readonly expires_at: string } | null
}

/**
 * Shows the form with which a person links their own Slack account. The account of an admin or owner is linked at once.
 * Other members must enter a code from a Slack message.
 */
export function SlackAccount(props: {
  readonly organization: Organization
  readonly slack: SlackState
  /** The person's previous entry, if it was refused. */
  readonly given: string
  readonly token: string
  readonly now: Date
}): ComponentChild {
  const { organization, slack, token } = props
  const hidden = h('input', { type: 'hidden', name: 'organization_id', value: organization.id })
  return h('section', { class: 'card', 'aria-labelledby': 'slack' }, [
    h('h2', { id: 'slack' }, ['Slack in ', h(Words, { text: organization.name, most: 100 })]),
    h(
      'p',
      null,
      slack.slack_account === null
        ? 'No Slack account is linked to you. You get no messages there about what waits for you.'
        : ['Messages about what waits for you go to ', h('code', null, slack.slack_account), '.'],
    ),
    slack.slack_claim === null
      ? null
      : h(CodeForm, { claim: slack.slack_claim, hidden, token, now: props.now }),
    h(IdForm, { ...props, hidden }),
    slack.slack_account === null
      ? null
      : h(PostForm, { action: accountPath, token }, [
          hidden,
          h('button', { class: 'danger', name: 'action', value: 'unlink' }, 'Unlink'),
        ]),
  ])
}

interface Inside {
  readonly hidden: ComponentChild
  readonly token: string
}

function CodeForm({
  claim,
  hidden,
  token,
  now,
}: Inside & { readonly claim: NonNullable<SlackState['slack_claim']>; readonly now: Date }): ComponentChild {
  return h(PostForm, { action: accountPath, token, class: 'fill' }, [
    hidden,
    h('input', { type: 'hidden', name: 'external_id', value: claim.external_id }),
    h('div', { class: 'stack' }, [
      h('label', { for: 'code' }, 'Code from Slack'),
      h('input', {
        id: 'code',
        name: 'code',
        required: true,
        inputmode: 'numeric',
        maxlength: 11,
        pattern: '[0-9]{4}[ ]?[0-9]{4}',
        autocomplete: 'one-time-code',
        'aria-describedby': 'code-help',
      }),
      h('p', { id: 'code-help', class: 'quiet small' }, [
        'A message with eight digits goes to ',
        h('code', null, claim.external_id),
        ' in Slack. The code ends ',
        h(Time, { at: claim.expires_at, now }),
        '. If none arrives, check the member ID.',
      ]),
    ]),
    h('button', { class: 'primary', name: 'action', value: 'prove' }, 'Link it'),
  ])
}

function IdForm({
  organization,
  slack: { slack_account: account, slack_claim: claim },
  given,
  hidden,
  token,
}: Inside & {
  readonly organization: Organization
  readonly slack: SlackState
  readonly given: string
}): ComponentChild {
  const isAtOnce = hasRole(organization.role, 'admin')
  const isFirst = account === null && claim === null
  return h(PostForm, { action: accountPath, token, class: 'fill' }, [
    hidden,
    h('div', { class: 'stack' }, [
      h('label', { for: 'external_id' }, isFirst ? 'Your member id in Slack' : 'Another member id'),
      h('input', {
        id: 'external_id',
        name: 'external_id',
        required: true,
        maxlength: 21,
        pattern: '[UWuw][A-Za-z0-9]{7,20}',
        autocomplete: 'off',
        autocapitalize: 'characters',
        spellcheck: false,
        'aria-describedby': 'external-help',
        value: given,
      }),
      h(
        'p',
        { id: 'external-help', class: 'quiet small' },
        `It looks like U012ABCDEF. In Slack, open your profile, then the menu with three dots, then “Copy member ID”.${
          isAtOnce ? '' : ' You get a code there, which you type in here.'
        }`,
      ),
    ]),
    h(
      'button',
      { class: isFirst ? 'primary' : '', name: 'action', value: 'link' },
      isAtOnce ? 'Link it' : claim === null ? 'Send the code' : 'Send a new code',
    ),
  ])
}
