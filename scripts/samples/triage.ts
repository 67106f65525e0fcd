import { mustHold } from '../../src/demo/show.ts'
import { issues, ratings, repo } from './data.ts'
import { runToEnd, saveWorkflow, type Session } from './session.ts'

/**
 * A language model rates issues. After a person has approved a rating, the rating is written as a comment on its issue.
 * The worker dies right after one such request. The next worker looks for the comment, finds it, and does not create it
 * again.
 */
export async function triage(session: Session): Promise<void> {
  const { tell, changes, services, tag } = session
  tell.step('Triage: open issues are rated by a language model, and each rating becomes a comment')
  await changes.save('rules', {
    name: `sample ${tag}: strangers' words are read before they are posted`,
    verdict: 'require_approval',
    tools: ['github_comment'],
    labels: { any_of: ['untrusted'] },
    params: [{ param: 'repo', operator: 'equals', value: repo }],
  })
  const workflow = await saveWorkflow(session, 'triage-issues')
  const requests = loseOneAnswer(session)
  const { run, heldSteps } = await runToEnd(session, workflow, { inputs: { repo } })
  mustHold(heldSteps.filter((step) => step === 'comment').length === issues.length, 'each comment was held')
  mustHold(services.prompts().length === issues.length, 'the model was asked once for each issue')

  tell.step('An answer was lost while a comment was written. Each comment exists once')
  mustHold(
    requests.sent === issues.length,
    `each request was sent once (${requests.sent} were sent for ${issues.length} issues)`,
  )
  mustHold(requests.looks > 0, 'the comment was looked for')
  const { comments: reported } = run.result as { comments: readonly { url: string }[] }
  for (const { number, title } of await services.issues()) {
    const [made, ...more] = await services.comments(number)
    mustHold(made !== undefined && more.length === 0, `issue #${number} has one comment`)
    const rating = ratings[title] ?? ''
    mustHold(made.body.startsWith(rating), `it is the rating of this issue (${rating})`)
    mustHold(
      reported.some(({ url }) => url === made.html_url),
      'the run reports it',
    )
    tell.line(`${title}: ${rating}`)
  }
  tell.line('one of them was sent once, looked for, and found by the hidden marker of its call')
}

/**
 * Makes the proxy lose the answer to the next request that writes a comment. Returns an object that counts these
 * requests (`sent`) and later searches for the comment (`looks`).
 */
function loseOneAnswer({ stack, services, tell }: Session): { sent: number; looks: number } {
  const requests = { sent: 0, looks: 0 }
  services.proxy.choose = (method, path) => {
    const isOfComments = path.split('?', 1)[0]?.endsWith('/comments') === true
    if (isOfComments && method === 'GET' && requests.sent > 0) requests.looks += 1
    if (!isOfComments || method !== 'POST') return 'pass'
    requests.sent += 1
    if (requests.sent > 1) return 'pass'
    return {
      lost() {
        tell.line('GitHub has written the comment, and its answer is on the way ...')
        stack.killWorker?.()
        tell.line(
          stack.killWorker === null
            ? '... when the connection breaks (this Countersign ran before, so its worker is not killed)'
            : '... when the worker is killed with SIGKILL',
        )
      },
    }
  }
  return requests
}
