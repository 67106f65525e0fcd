import { h, type ComponentChild } from 'preact'
import { accountPath, resetPath, secondFactorPath } from '../../contract/pages.ts'
import { Alert } from '../parts/alert.ts'
import { PostForm } from '../parts/layout.ts'
import { Badge } from '../parts/state.ts'
import { Words } from '../parts/words.ts'
import type { Form, Organization, PersonsVisit, Problem, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

interface Me {
  readonly user: { readonly second_factor: boolean; readonly email_verified: boolean }
  readonly organizations: readonly { readonly id: string; readonly slack_account: string | null }[]
}

/** `GET /console/account`: who is signed in, and their account in the organization's chat. */
export async function accountPage(
  visit: PersonsVisit,
  refused: Problem | null = null,
  given = '',
): Promise<Shown> {
  const me = await visit.api.call<Me>('GET /me')
  if (!me.ok) return problemPage(me, visit.place)
  const { person, token } = visit
  const { user, organization } = person
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
      organization === null || organization.personal
        ? null
        : h(Slack, { organization, slack: slackIn(me.body, organization), given, token }),
    ]),
  }
}

const slackIn = ({ organizations }: Me, { id }: Organization): string | null =>
  organizations.find((each) => each.id === id)?.slack_account ?? null

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
      h(
        'a',
        { href: `${secondFactorPath}?return=${encodeURIComponent(accountPath)}` },
        user.second_factor ? 'Second factor and backup codes' : 'Add a second factor',
      ),
      h('a', { href: resetPath }, 'Set a new password by mail'),
    ]),
  ])
}

function Slack({
  organization,
  slack,
  given,
  token,
}: {
  readonly organization: Organization
  readonly slack: string | null
  readonly given: string
  readonly token: string
}): ComponentChild {
  const hidden = h('input', { type: 'hidden', name: 'organization_id', value: organization.id })
  return h('section', { class: 'card', 'aria-labelledby': 'slack' }, [
    h('h2', { id: 'slack' }, ['Slack in ', h(Words, { text: organization.name, most: 100 })]),
    h(
      'p',
      null,
      slack === null
        ? 'No Slack account is linked to you. You get no messages there about what waits for you.'
        : ['Messages about what waits for you go to ', h('code', null, slack), '.'],
    ),
    h(PostForm, { action: accountPath, token, class: 'fill' }, [
      hidden,
      h('div', { class: 'stack' }, [
        h('label', { for: 'external_id' }, slack === null ? 'Your member id in Slack' : 'Another member id'),
        h('input', {
          id: 'external_id',
          name: 'external_id',
          required: true,
          maxlength: 21,
          pattern: '[UW][A-Z0-9]{7,20}',
          autocomplete: 'off',
          autocapitalize: 'characters',
          spellcheck: false,
          'aria-describedby': 'external-help',
          value: given,
        }),
        h(
          'p',
          { id: 'external-help', class: 'quiet small' },
          'It looks like U012ABCDEF. In Slack, open your profile, then the menu with three dots, then “Copy member ID”.',
        ),
      ]),
      h('button', { class: slack === null ? 'primary' : '', name: 'action', value: 'link' }, 'Link it'),
    ]),
    slack === null
      ? null
      : h(PostForm, { action: accountPath, token }, [
          hidden,
          h('button', { class: 'danger', name: 'action', value: 'unlink' }, 'Unlink'),
        ]),
  ])
}

/** `POST /console/account`: links or unlinks the person's own Slack account. */
export async function changeAccount(visit: PersonsVisit, form: Form): Promise<Shown> {
  const organization = visit.person.organizations.find(({ id }) => id === form.get('organization_id'))
  const params = { id: organization?.id ?? '', user: visit.person.user.id }
  const account = (form.get('external_id') ?? '').trim().toUpperCase()
  const action = form.get('action')
  if (organization === undefined || (action !== 'link' && action !== 'unlink'))
    return accountPage(visit, { status: 422, code: 'validation_error', message: 'Press one of the buttons.' })
  const key = 'organizations/{id}/members/{user}/accounts/slack'
  const done =
    action === 'unlink'
      ? await visit.api.call(`DELETE /${key}`, { params })
      : await visit.api.call(`PUT /${key}`, { params, body: { external_id: account } })
  if (done.ok) return { redirect: accountPath }
  const isForm = done.status === 422
  const message = isForm ? 'That is no member id: it looks like `U012ABCDEF`.' : done.message
  return accountPage(visit, { ...done, message }, account.slice(0, 40))
}
