# For the commands in docs/. Read it in the repository's folder, in bash or zsh, while `npm start` runs:
#   . samples/shell.sh
# It sets the addresses and keys from bootstrap.json of the data folder, and defines `field`, `request`, `api` and
# `countersign`.

SAMPLES=$PWD/samples
DATA=${DATA_DIR:-$PWD/.data}
# Files that the commands make go there.
WORK=$(mktemp -d)

# Prints fields of a JSON answer, such as `field id`. samples/field.mjs explains paths.
field() { node "$SAMPLES/field.mjs" "$@"; }

# curl with these options. Prints the answer, and nothing if it has no body, such as that of DELETE.
request() {
  local answer
  answer=$(curl -sS -H 'Content-Type: application/json' "$@") || return
  [ -z "$answer" ] || printf '%s\n' "$answer"
}

# The command line of the repository, for the server of `npm start`.
countersign() { node "$(cd -P "$SAMPLES/.." && pwd)/bin/countersign.js" "$@"; }

# One request: api KEY METHOD PATH, then options of curl such as -d BODY.
api() { request -H "Authorization: Bearer $1" -X "$2" "$URL$3" "${@:4}"; }

if [ -f "$DATA/bootstrap.json" ]; then
  read -r BASE ORG AGENT OWNER ADMIN APPROVER MEMBER VIEWER MEMBER_ID MEMBER_PASSWORD <<END
$(field base_url organization_id agent_key users.owner.api_key users.admin.api_key users.approver.api_key \
    users.member.api_key users.viewer.api_key users.member.user_id users.member.password < "$DATA/bootstrap.json")
END
  URL=$BASE/api/v1
  export COUNTERSIGN_URL=$BASE
else
  echo "there is no $DATA/bootstrap.json: start \`npm start\` first, or go to the repository's folder, or set DATA_DIR to your data folder" >&2
fi
