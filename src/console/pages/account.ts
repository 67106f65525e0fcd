import { h, type ComponentChild } from 'preact'
import { accountPath, confirmPath, resetPath, secondFactorPath } from '../../contract/pages.ts'
import { Alert } from '../parts/alert.ts'
import { MailChoice, noMails, type MailState } from '../parts/mail-choice.ts'
import { SlackAccount, type SlackState } from '../parts/slack-account.ts'
import { Badge } from '../parts/state.ts'
import { Words } from '../parts/words.ts'
import { hasRole } from '../role.ts'
import type { Form, Organization, PersonsVisit, Problem, Result, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

interface Me {
  readonly user: { readonly second_factor: boolean; readonly email_verified: boolean }
  readonly organizations: readonly (SlackState & { readonly id: string })[]
}

/** `GET /console/account`: shows the signed-in person, with the person's Slack account and mail settings. */
export async function accountPage(
  visit: PersonsVisit,
  refused: Problem | null = null,
  given = '',
): Promise<Shown> {
  const me = await visit.api.call<Me>('GET /me')
  if (!me.ok) return problemPage(me, visit.place)
  const { person, token, now } = visit
  const { user } = person
  const organization = person.organization?.personal === false ? person.organization : null
  const slack = me.body.organizations.find(({ id }) => id === organization?.id)
  const mails = await mailsIn(visit, organization)
  return {
    status: refused?.status ?? 200,
    title: 'Your account',
    main: h('article', { class: 'page medium' }, [
      h('header', { class: 'headline' }, [
        h('h1', null, 'Your account'),
        h('p', { class: 'quiet' }, [
          h(Words, { text: user.name, most: 100 }),
          ' · ',
          h(Words, { text: user.email }),
        ]),
      ]),
      h(Alert, { message: refused?.message ?? null }),
      h(SignIn, { me: me.body }),
      organization === null || slack === undefined
        ? null
        : h(SlackAccount, { organization, slack, given, token, now }),
      organization === null || mails === null
        ? null
        : h(MailChoice, { organization, mails, token, isSaved: visit.query.get('saved') === 'mails' }),
    ]),
  }
}

/**
 * Reads the mail settings of a person who can decide approvals. Returns null for everybody else, and if the settings
 * cannot be read.
 */
async function mailsIn({ api }: PersonsVisit, organization: Organization | null): Promise<MailState | null> {
  if (organization === null || !hasRole(organization.role, 'admin')) return null
  const query = { organization_id: organization.id }
  const found = await api.call<MailState>('GET /me/notifications', { query })
  return found.ok ? found.body : null
}

function SignIn({ me: { user } }: { readonly me: Me }): ComponentChild {
  return h('section', { class: 'card', 'aria-labelledby': 'signing-in' }, [
    h('h2', { id: 'signing-in' }, 'Signing in'),
    h('p', { class: 'badges' }, [
      user.email_verified
        ? h(Badge, { tone: 'good', word: 'Address confirmed' })
        : h(Badge, { tone: 'warn', word: 'Address not confirmed' }),
      user.second_factor
        ? h(Badge, { tone: 'good', word: 'Second factor is on' })
        : h(Badge, { tone: 'warn', word: 'No second factor' }),
    ]),
    h('p', { class: 'links' }, [
      user.email_verified ? null : h('a', { href: confirmPath }, 'Confirm your address'),
      h(
        'a',
        { href: `${secondFactorPath}?return=${encodeURIComponent(accountPath)}` },
        user.second_factor ? 'Second factor and backup codes' : 'Add a second factor',
      ),
      h('a', { href: resetPath }, 'Set a new password by mail'),
    ]),
  ])
}

/** `POST /console/account`: changes the person's own Slack account or mail settings. */
export async function changeAccount(visit: PersonsVisit, form: Form): Promise<Shown> {
  const organization = visit.person.organizations.find(({ id }) => id === form.get('organization_id'))
  const account = (form.get('external_id') ?? '').trim().toUpperCase()
  const change = organization === undefined ? null : changeOf(visit, organization, form, account)
  if (change === null)
    return accountPage(visit, { status: 422, code: 'validation_error', message: 'Press one of the buttons.' })
  const done = await change
  const action = form.get('action')
  if (done.ok)
    return { redirect: action === 'mails' ? `${accountPath}?saved=mails#mails` : `${accountPath}#slack` }
  const message = done.status === 422 ? (mistakes[action ?? ''] ?? done.message) : done.message
  return accountPage(visit, { ...done, message }, action === 'link' ? account.slice(0, 40) : '')
}

/** The messages for wrong entries. The key is the value of the pressed button. */
const mistakes: Readonly<Record<string, string>> = {
  link: 'That is no member id: it looks like U012ABCDEF.',
  prove: 'That is not the code. After five wrong ones, have a new one sent.',
}

/** Sends the change that belongs to the pressed button. Returns null if there is no such button. */
function changeOf(
  { api, person }: PersonsVisit,
  { id }: Organization,
  form: Form,
  account: string,
): Promise<Result<unknown>> | null {
  const key = 'organizations/{id}/members/{user}/accounts/slack'
  const params = { id, user: person.user.id }
  switch (form.get('action')) {
    case 'link':
      return api.call(`PUT /${key}`, { params, body: { external_id: account } })
    case 'prove': {
      const code = (form.get('code') ?? '').replaceAll(/\s/g, '')
      return api.call(`PUT /${key}`, { params, body: { external_id: account, code } })
    }
    case 'unlink':
      return api.call(`DELETE /${key}`, { params })
    case 'mails': {
      const delay = form.get('delay')
      const isOff = delay === noMails
      // A person who turns mails off keeps the previous delay. This delay applies again when the mails are turned on.
      const body = { mail: !isOff, delay_seconds: Number(isOff ? form.get('before') : delay) }
      return api.call('PUT /me/notifications', { query: { organization_id: id }, body })
    }
    default:
      return null
  }
}
