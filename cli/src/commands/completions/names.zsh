# The names of the locks that are held.
_leasehold_names() {
    local option
    local -a store names
    for option in -u --url -p --profile --config; do
        [[ -n "${opt_args[$option]}" ]] && store+=("$option" "${opt_args[$option]//\\:/:}")
    done
    names=("${(@f)$(timeout 2 leasehold $store -qq ls --names 2>/dev/null)}")
    compadd -a names
}

