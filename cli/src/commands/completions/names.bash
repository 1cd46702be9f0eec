
# The names of the locks that are held, where a verb takes a name.
_leasehold_with_names() {
    _leasehold "$@"
    # Bash takes a colon for the end of a word, and lock names have some: so the line is split here again.
    local line="${COMP_LINE:0:COMP_POINT}" verb="" option="" store=() words=() names=() word typed=""
    local current="${line##*[[:blank:]]}"
    read -ra words <<<"${line%"$current"}"
    for word in "${words[@]:1}"; do
        case "$option" in
            -u | --url | -p | --profile | --config) store+=("$option" "$word") ;;
        esac
        case "$option" in
            @WITH_VALUE@)
                option=""
                continue
                ;;
        esac
        option=""
        case "$word" in
            --) return ;;
            --url=* | --profile=* | --config=*) store+=("$word") ;;
            -*) option="$word" ;;
            *) verb="${verb:-$word}" ;;
        esac
    done
    case "$option" in
        @WITH_VALUE@) return ;;
    esac
    case "$verb,$current" in
        *,-*) return ;;
        run,* | elect,* | hold,* | try,* | wait,* | inspect,* | release,* | ls,*) ;;
        *) return ;;
    esac
    # Bash replaces only what stands behind the last colon.
    [[ "$current" == *[:=]* ]] && typed="${current%"${current##*[:=]}"}"
    while IFS= read -r word; do
        word=$(printf %q "$word")
        names+=("${word#"$typed"}")
    done < <(timeout 2 "$1" "${store[@]}" -qq ls --names -- "$current" 2>/dev/null)
    [[ ${#names[@]} -gt 0 ]] && COMPREPLY=("${names[@]}")
}
complete -F _leasehold_with_names -o bashdefault -o default leasehold
