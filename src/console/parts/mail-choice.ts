import { h, type ComponentChild } from 'preact'
import { accountPath } from '../../contract/pages.ts'
import type { Organization } from '../visit.ts'
import { PostForm } from './layout.ts'
import { distance } from './time.ts'
import { Words } from './words.ts'

/** A person's mail settings in an organization, as in the answer of `GET /me/notifications`. */
export interface MailState {
  readonly mail: boolean
  readonly delay_seconds: number
}

/** The value of the choice that turns mails off. */
export const noMails = 'none'
const delays = [0, 300, 600, 1_800, 3_600, 14_400, 86_400]

/**
 * Shows the form in which a person chooses the delay of mails about waiting approvals. Only people who can decide
 * approvals get this form.
 */
export function MailChoice({
  organization,
  mails,
  token,
  isSaved,
}: {
  readonly organization: Organization
  readonly mails: MailState
  readonly token: string
  /** Whether the person has just saved this form. */
  readonly isSaved: boolean
}): ComponentChild {
  const chosen = mails.mail ? String(mails.delay_seconds) : noMails
  const offered = [...new Set([...delays, mails.delay_seconds])].toSorted((a, b) => a - b)
  return h('section', { class: 'card', 'aria-labelledby': 'mails' }, [
    h('h2', { id: 'mails' }, ['Mails from ', h(Words, { text: organization.name, most: 100 })]),
    isSaved ? h('p', { class: 'note', role: 'status' }, 'Your choice is saved.') : null,
    h(PostForm, { action: accountPath, token, class: 'fill' }, [
      h('input', { type: 'hidden', name: 'organization_id', value: organization.id }),
      h('input', { type: 'hidden', name: 'before', value: String(mails.delay_seconds) }),
      h('div', { class: 'stack' }, [
        h('label', { for: 'delay' }, 'Mail me what nobody has decided'),
        h('select', { id: 'delay', name: 'delay', 'aria-describedby': 'delay-help' }, [
          ...offered.map((seconds) =>
            h(
              'option',
              { value: String(seconds), selected: chosen === String(seconds) },
              seconds === 0 ? 'at once' : `after ${distance(seconds * 1_000)}`,
            ),
          ),
          h('option', { value: noMails, selected: chosen === noMails }, 'never'),
        ]),
        h(
          'p',
          { id: 'delay-help', class: 'quiet small' },
          'A reminder comes before an approval expires. “Never” turns that off too.',
        ),
      ]),
      h('button', { name: 'action', value: 'mails' }, 'Save'),
    ]),
  ])
}
