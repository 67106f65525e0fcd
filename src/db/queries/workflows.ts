import { sql, type RawBuilder } from 'kysely'

/** Directly or through other workflows. */
export const isReplacedBy = (workflowId: string, replacementId: string): RawBuilder<unknown> => sql`
  with recursive chain(id) as (
    select ${replacementId}::text
    union
    select e.replacement_id from registry_entries e join chain on e.workflow_id = chain.id
  )
  select 1 from chain where id = ${workflowId}`

export interface CurrentVersion {
  readonly current_version: number
  readonly name: string
  /** Saved by another person, and neither run nor replaced by this one. */
  readonly changed_in: number | null
}

/** `changed_in`: whether this person would run another's change (not the first version) for the first time. */
export const readCurrentVersion = (given: {
  readonly workflowId: string
  readonly organizationId: string
  readonly userId: string
  readonly version: number | null
}): RawBuilder<CurrentVersion> => sql`
  select w.current_version, w.name, (
      select changed.version
      from (select v.version from workflow_versions v
            where v.workflow_id = w.id and v.version between 2 and coalesce(${given.version}::int, w.current_version)
              and v.deployed_by <> ${given.userId}
            order by v.version desc limit 1) changed
      where not exists (select from workflow_versions own where own.workflow_id = w.id and own.deployed_by = ${given.userId}
                          and own.version between changed.version and coalesce(${given.version}::int, w.current_version))
        and not exists (select from runs where workflow_id = w.id and requested_by = ${given.userId}
                          and workflow_version >= changed.version)
    ) as changed_in
  from workflows w
  where w.id = ${given.workflowId} and w.organization_id = ${given.organizationId} and w.deleted_at is null`

/** `others` are the authors without this person and `userId`. */
export const readChangeOf = (
  workflowId: string,
  version: number,
  userId: string,
): RawBuilder<{
  readonly version: number
  readonly author: string
  readonly others: readonly string[]
  readonly deployed_at: Date
  readonly message: string
}> => sql`
  select v.version, u.email as author, v.deployed_at, v.message, array(
      select o.email from users o
      where o.id in (select each ->> 'user_id' from jsonb_array_elements(v.authors) each)
        and o.id not in (v.deployed_by, ${userId})
      order by o.email) as others
  from workflow_versions v join users u on u.id = v.deployed_by
  where v.workflow_id = ${workflowId} and v.version = ${version}`
