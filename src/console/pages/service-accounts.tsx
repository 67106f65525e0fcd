import type { AnswerOf } from '../../api/routes/index.ts'
import { keysPath, peoplePath } from '../../contract/pages.ts'
import { Confirm, Field, onceOf, Select, type Filled } from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { actions } from '../parts/list.tsx'
import { ShortList } from '../parts/short-list.tsx'
import { Time } from '../parts/time.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { capital, Words } from '../parts/words.tsx'
import type { Form, Organization, PersonsVisit, Result } from '../visit.ts'

/* The service accounts of `/console/people`: programs with keys, which cannot sign in. */

export type ServiceAccount = AnswerOf<'GET /organizations/{id}/service-accounts'>['data'][number]

const roles = ['viewer', 'member'] as const
const roleOptions = [
  ['member', 'Member: starts runs, changes workflows and files'],
  ['viewer', 'Viewer: sees runs'],
] as const

/** All of them: an organization has at most a hundred. Empty for people who may not see them. */
export async function serviceAccountsOf(
  { api }: PersonsVisit,
  id: string,
): Promise<readonly ServiceAccount[]> {
  const listed = await api.call('GET /organizations/{id}/service-accounts', {
    params: { id },
    query: { limit: '200' },
  })
  return listed.ok ? listed.body.data : []
}

export function ServiceAccounts(props: {
  visit: PersonsVisit
  organization: Organization
  accounts: readonly ServiceAccount[]
  filled: Filled
}) {
  const { visit, organization, accounts, filled } = props
  return (
    <ShortList
      id="service-accounts"
      title="Service accounts"
      about={
        <p class="quiet">
          For programs such as a nightly job. They have keys, cannot sign in or vote, and stay when the person
          who made them leaves.
        </p>
      }
      none={{
        title: 'There is no service account.',
        words: 'Make one before a program uses a key of yours: your keys end with you.',
      }}
      head={['Name', 'Role', 'Keys', 'Used', 'Made by', actions]}
      rows={accounts.map((account) => rowOf(account, visit, organization.id))}
      form={{
        action: peoplePath,
        token: visit.token,
        title: 'New service account',
        button: ['service-create', 'Create the service account'],
      }}
    >
      <input type="hidden" name="organization_id" value={organization.id} />
      <Field name="name" most={100} help="Such as “nightly report”." filled={filled} />
      <Select
        name="role"
        id="service-role"
        label="Role"
        options={roleOptions}
        value={filled.form?.get('role') ?? 'member'}
      />
    </ShortList>
  )
}

function rowOf(account: ServiceAccount, { token, now }: PersonsVisit, organizationId: string) {
  const { id, name, role, active_keys: keys, last_used_at: used } = account
  const hidden = [
    <input type="hidden" name="account" value={id} />,
    <input type="hidden" name="organization_id" value={organizationId} />,
  ]
  return [
    <Words text={name} most={100} />,
    capital(role),
    String(keys),
    used === null ? 'never' : <Time at={used} now={now} />,
    <Words text={account.created_by_email} most={254} />,
    <details>
      <summary class="button">
        Change<span class="unseen">{` ${name}`}</span>
      </summary>
      <div class="note stack">
        <p class="links">
          <a href={`${keysPath}/new?account=${id}`}>Create a key for it</a>
          <a href={keysPath}>Its keys</a>
        </p>
        <PostForm action={peoplePath} token={token} class="fill">
          {hidden}
          <Field name="renamed" id={`name-${id}`} label="Name" most={100} value={name} />
          <Select name="role" id={`role-${id}`} label="Role" options={roleOptions} value={role} />
          <button name="action" value="service-role">
            Save name and role
          </button>
        </PostForm>
        <Confirm
          action={peoplePath}
          token={token}
          value="service-delete"
          open="Delete …"
          explanation="Programs with its keys are refused at once. What it has started goes no further than a call that is decided already."
          sure="Delete the service account"
        >
          {hidden}
        </Confirm>
      </div>
    </details>,
  ]
}

/** `POST /console/people`, for the actions of this section. */
export function changeServiceAccounts(
  { api }: PersonsVisit,
  form: Form,
  id: string,
): Promise<Result<unknown>> {
  const params = { id, account: form.get('account') ?? '' }
  const role = roles.find((each) => each === form.get('role')) ?? 'member'
  switch (form.get('action')) {
    case 'service-create':
      return api.call('POST /organizations/{id}/service-accounts', {
        params: { id },
        body: { name: form.get('name') ?? '', role },
        ...onceOf(form),
      })
    case 'service-role':
      return api.call('PATCH /organizations/{id}/service-accounts/{account}', {
        params,
        body: { name: form.get('renamed') ?? '', role },
      })
    case 'service-delete':
      return api.call('DELETE /organizations/{id}/service-accounts/{account}', { params })
    default:
      return Promise.resolve(nothingDone)
  }
}
